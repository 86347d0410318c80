#include "jobs/output_tap.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <thread>
#include <utility>

#include "jobs/remote/write_whole.h"
#include "runtime/net/unique_fd.h"

namespace volador::jobs {
namespace {

constexpr size_t kTapBytes = 64 << 10;
constexpr int kTapPipeBytes = 1 << 20;
constexpr size_t kReportedLineBytes = 500;
constexpr size_t kMatchesMax = 1000;  // Kept for the head; later ones are dropped.
constexpr std::chrono::seconds kReportAgain{60};

}  // namespace

// ---- matches ----

void LogMatches::add(size_t policy, std::string_view line) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (last_.size() <= policy) last_.resize(policy + 1, std::chrono::steady_clock::time_point::min());
  const bool reported = last_[policy] != std::chrono::steady_clock::time_point::min();
  if ((reported && now - last_[policy] < kReportAgain) || matches_.size() >= kMatchesMax) return;
  last_[policy] = now;
  matches_.push_back({.policy = static_cast<int32_t>(policy), .line = std::string(line.substr(0, kReportedLineBytes))});
  answer_locked();
}

void LogMatches::add_failure(int code) {
  const std::lock_guard lock(mutex_);
  matches_.push_back({.policy = kRankFailed, .line = std::to_string(code)});
  answer_locked();
}

void LogMatches::answer_locked() {
  if (!waits_ || static_cast<int64_t>(matches_.size()) <= wanted_) return;
  const auto later = std::exchange(waits_, nullptr);
  later->set(std::vector<LogMatch>(matches_.begin() + wanted_, matches_.end()));
}

Deferred<std::vector<LogMatch>> LogMatches::beyond(int64_t after) {
  const std::lock_guard lock(mutex_);
  Deferred<std::vector<LogMatch>> later;
  if (waits_) waits_->set(std::vector<LogMatch>());
  taken_ = std::max(taken_, after);
  wanted_ = std::clamp<int64_t>(after, 0, static_cast<int64_t>(matches_.size()));
  waits_ = std::make_unique<Deferred<std::vector<LogMatch>>>(later);
  answer_locked();
  taken_changed_.notify_all();
  return later;
}

void LogMatches::wait_until_taken(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  taken_changed_.wait_for(lock, patience, [this] { return taken_ >= static_cast<int64_t>(matches_.size()); });
}

// ---- the tap ----

struct OutputTap::Stream {
  net::UniqueFd from;     // Read here.
  net::UniqueFd given;    // The processes' end.
  net::UniqueFd stopped;  // Readable when no process of the job runs any more.
  int to = -1;
  std::unique_ptr<LogMatcher> matcher;
  LogMatches* matches = nullptr;
  std::thread thread;

  void run() {
    std::vector<char> buffer(kTapBytes);
    const auto found = [this](size_t rule, std::string_view line) { matches->add(rule, line); };
    while (true) {
      const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
      if (got > 0) {
        const std::string_view bytes(buffer.data(), static_cast<size_t>(got));
        write_whole(to, bytes);
        matcher->feed(bytes, found);
        continue;
      }
      if (got < 0 && errno == EINTR) continue;
      if (got == 0 || errno != EAGAIN) break;
      std::array<pollfd, 2> ready{pollfd{.fd = from.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = stopped.get(), .events = POLLIN, .revents = 0}};
      ::poll(ready.data(), ready.size(), -1);
      if (ready[0].revents == 0 && ready[1].revents != 0) break;
    }
    matcher->end(found);
  }
};

OutputTap::OutputTap() = default;

Result<std::unique_ptr<OutputTap>> OutputTap::create(const std::vector<LogRule>& rules, LogMatches& matches) {
  std::unique_ptr<OutputTap> tap(new OutputTap);
  for (const int to : {STDOUT_FILENO, STDERR_FILENO}) {
    auto stream = std::make_unique<Stream>();
    auto matcher = LogMatcher::create(rules);
    if (!matcher) return make_error(matcher.error());
    std::array<int, 2> ends{};
    stream->stopped.reset(::eventfd(0, EFD_CLOEXEC));
    if (!stream->stopped || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("the output cannot be watched for log policies: {}", std::strerror(errno)));
    }
    stream->from.reset(ends[0]);
    stream->given.reset(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ::fcntl(ends[0], F_SETPIPE_SZ, kTapPipeBytes);
    stream->to = to;
    stream->matcher = std::move(*matcher);
    stream->matches = &matches;
    tap->streams_.push_back(std::move(stream));
  }
  return tap;
}

OutputTap::~OutputTap() { finish(); }

RankProcess::Streams OutputTap::streams() const {
  return {.in = -1, .out = streams_[0]->given.get(), .err = streams_[1]->given.get()};
}

void OutputTap::start() {
  for (const auto& stream : streams_) stream->thread = std::thread([at = stream.get()] { at->run(); });
}

void OutputTap::finish() {
  for (const auto& stream : streams_) {
    if (!stream->thread.joinable()) continue;
    stream->given.reset();
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stream->stopped.get(), &one, sizeof one);
    stream->thread.join();
  }
}

}  // namespace volador::jobs
