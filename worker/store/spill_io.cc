#include "worker/store/spill_io.h"

#include <signal.h>

#include <chrono>
#include <utility>

#include "runtime/net/io_loop.h"
#include "runtime/store/arena.h"

namespace volador::worker {
namespace {

constexpr auto kProgressEvery = std::chrono::seconds(1);

// Exceeding the file size limit must fail the write, not end the process.
void block_file_size_signal() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

SpillIo::SpillIo(std::unique_ptr<SpillFile> file)
    : file_(std::move(file)), closing_(std::make_shared<std::atomic<bool>>(false)) {}

SpillIo::~SpillIo() {
  *closing_ = true;
  writer_.reset();
  reader_.reset();
}

void SpillIo::post(std::unique_ptr<net::IoLoop>& thread, const char* name, std::function<void()> job,
                   const std::function<void(Error)>& failed) {
  if (!thread) {
    auto made = net::IoLoop::create(name);
    if (!made) return failed(made.error());
    thread = std::move(*made);
    thread->post(block_file_size_signal);
  }
  thread->post(std::move(job));
}

void SpillIo::write(const StoreActions::Spill& job, std::shared_ptr<Mapping> memory, std::function<void()> progress,
                    std::function<void(Result<SpillSums>)> done) {
  const auto run = [this, closing = closing_, job, memory = std::move(memory), progress = std::move(progress), done] {
    if (*closing) return;
    auto last = std::chrono::steady_clock::now();
    const auto bytes = memory->view().subspan(static_cast<size_t>(job.offset), static_cast<size_t>(job.to.bytes));
    done(file_->write(job.to.offset, bytes, [&] {
      const auto now = std::chrono::steady_clock::now();
      if (now - last < kProgressEvery) return;
      last = now;
      progress();
    }));
  };
  post(writer_, "volador-spill", run, [done](Error error) { done(make_error(std::move(error))); });
}

void SpillIo::read(const SpillPlace& from, std::shared_ptr<Mapping> into, std::function<void(Result<void>)> done) {
  const auto run = [this, closing = closing_, from, into = std::move(into), done] {
    if (*closing) return;
    done(file_->read(from.offset, from.bytes, *from.sums, 0, {into->data(), static_cast<size_t>(from.bytes)}));
  };
  post(reader_, "volador-unspill", run, [done](Error error) { done(make_error(std::move(error))); });
}

void SpillIo::read_part(const SpillPlace& from, int64_t offset, int64_t bytes,
                        std::function<void(Result<std::string>)> done) {
  const auto run = [this, closing = closing_, from, offset, bytes, done] {
    if (*closing) return;
    std::string part(static_cast<size_t>(bytes), '\0');
    auto read = file_->read(from.offset, from.bytes, *from.sums, offset, std::as_writable_bytes(std::span(part)));
    if (!read) return done(make_error(std::move(read).error()));
    done(std::move(part));
  };
  post(reader_, "volador-unspill", run, [done](Error error) { done(make_error(std::move(error))); });
}

void SpillIo::discard(const SpillPlace& place) {
  post(
      writer_, "volador-spill", [this, place] { file_->discard(place.offset, place.bytes); }, [](const Error&) {});
}

}  // namespace volador::worker
