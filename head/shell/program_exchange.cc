#include "head/shell/program_exchange.h"

#include <fmt/format.h>

#include <set>

#include "runtime/log.h"
#include "runtime/protocol/control.pb.h"

namespace volador::head {

ProgramExchange::ProgramExchange(std::unique_ptr<ProgramCache> cache, CoreRunner& runner, const Clock& clock,
                                 LoopSystem& loops, const ProgramExchangeOptions& options)
    : cache_(std::move(cache)),
      runner_(runner),
      clock_(clock),
      options_(options),
      loop_(loops, "head programs", EventLoop::Thread::kOwn) {}

ProgramExchange::~ProgramExchange() { stop(); }

void ProgramExchange::post(std::function<void()> function) { loop_.post(std::move(function)); }

void ProgramExchange::post_after(std::chrono::nanoseconds delay, std::function<void()> function) {
  loop_.post_after(delay, std::move(function));
}

void ProgramExchange::stop() { loop_.stop(); }

void ProgramExchange::fetch(const std::string& sha256, Found done) {
  if (auto path = cache_->find(sha256)) return done(*path);
  {
    const std::lock_guard lock(other_mutex_);
    if (auto path = other_files_ ? other_files_(sha256) : std::nullopt) return done(*path);
  }
  auto [waiting, is_first] = waiting_.try_emplace(sha256);
  waiting->second.done.push_back(std::move(done));
  if (!is_first) return;
  waiting->second.heard = clock_.now();
  if (!expiring_) {
    expiring_ = true;
    loop_.post_after(std::chrono::seconds(1), [this] { expire(); });
  }
  runner_.change([sha256](HeadCore& core,
                          BootTime now) { return core.act(now, [&] { return core.clients().need_program(sha256); }); },
                 [this, sha256](Result<void> asked) {
                   if (!asked) post([this, sha256, error = asked.error()] { fail(sha256, error); });
                 });
}

void ProgramExchange::set_other_files(
    std::function<std::optional<std::filesystem::path>(const std::string& sha256)> find) {
  const std::lock_guard lock(other_mutex_);
  other_files_ = std::move(find);
}

void ProgramExchange::fail(const std::string& sha256, const Error& error) {
  auto found = waiting_.extract(sha256);
  if (found.empty()) return;
  for (Found& done : found.mapped().done) done(make_error(error));
}

void ProgramExchange::expire() {
  const BootTime now = clock_.now();
  std::vector<std::string> late;
  for (const auto& [sha256, waiting] : waiting_) {
    if (now - waiting.heard > options_.silence_max) late.push_back(sha256);
  }
  for (const std::string& sha256 : late) {
    log::warn("head", "no driver sent a program", {{"program", program_name(sha256)}});
    fail(sha256,
         {ErrorCode::kUnavailable,
          fmt::format(
              "program {}: no driver sent it to the head within {} s. Is the program that started these actors still "
              "running and connected?",
              program_name(sha256), std::chrono::ceil<std::chrono::seconds>(options_.silence_max).count())});
  }
  expiring_ = !waiting_.empty();
  if (expiring_) loop_.post_after(std::chrono::seconds(1), [this] { expire(); });
}

void ProgramExchange::begin(const std::string& sha256, int64_t size, Begun done) {
  if (cache_->find(sha256)) return done(nullptr);
  // The core determines which programs are in use; the cache may remove the others.
  runner_.ask([this, sha256, size, done = std::move(done), cached = cache_->hashes()](const HeadCore& core, BootTime) {
    auto used = std::make_shared<std::set<std::string>>();
    for (const std::string& one : cached) {
      if (core.program_in_use(one)) used->insert(one);
    }
    const bool announced = core.program(sha256) != nullptr;
    post([this, sha256, size, done, used, announced] {
      if (!announced) {
        return done(make_error(
            ErrorCode::kNotFound,
            fmt::format("program {}: no connected driver announced it; say Hello first", program_name(sha256))));
      }
      done(cache_->begin(sha256, size, [&used](const std::string& one) { return used->contains(one); }));
    });
  });
}

void ProgramExchange::progressed(const std::string& sha256) {
  if (auto found = waiting_.find(sha256); found != waiting_.end()) found->second.heard = clock_.now();
}

void ProgramExchange::finished(const std::string& sha256) {
  const auto path = cache_->find(sha256);
  auto found = waiting_.extract(sha256);
  if (!path || found.empty()) return;
  for (Found& done : found.mapped().done) done(*path);
}

}  // namespace volador::head
