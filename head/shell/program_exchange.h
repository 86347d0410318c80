// Programs in transit: workers ask, a driver uploads, the cache keeps. Its own thread does the file work.
#pragma once

#include <chrono>
#include <functional>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "head/shell/core_runner.h"
#include "head/shell/program_cache.h"
#include "runtime/clock.h"
#include "runtime/loop/event_loop.h"

namespace volador::head {

struct ProgramExchangeOptions {
  // A worker's request fails when no driver has sent anything of the program for so long.
  std::chrono::milliseconds silence_max{30'000};
};

class ProgramExchange {
 public:
  ProgramExchange(std::unique_ptr<ProgramCache> cache, CoreRunner& runner, const Clock& clock, LoopSystem& loops, const ProgramExchangeOptions& options = {});
  ~ProgramExchange();

  // Runs on the exchange's thread, where functions may block on files.
  void post(std::function<void()> function);
  void post_after(std::chrono::nanoseconds delay, std::function<void()> function);
  void stop();

  // ---- on the exchange's thread; `done` runs there as well ----

  using Found = std::function<void(Result<std::filesystem::path>)>;
  // At once where the cache has it; else after asking a driver. kNotFound: no connected driver has it; kUnavailable: none sent it.
  void fetch(const std::string& sha256, Found done);

  using Begun = std::function<void(Result<std::unique_ptr<ProgramCache::Upload>>)>;
  // Null with no error: the head has the program already. kNotFound: no driver announced a program of this hash.
  void begin(const std::string& sha256, int64_t size, Begun done);
  // A piece of the upload has arrived: who waits for it goes on waiting.
  void progressed(const std::string& sha256);
  // The upload is in the cache: answers who waits for it.
  void finished(const std::string& sha256);

 private:
  struct Waiting {
    BootTime heard;
    std::vector<Found> done;
  };
  void expire();
  void fail(const std::string& sha256, const Error& error);

  std::unique_ptr<ProgramCache> cache_;
  CoreRunner& runner_;
  const Clock& clock_;
  const ProgramExchangeOptions options_;
  std::map<std::string, Waiting> waiting_;
  bool expiring_ = false;
  EventLoop loop_;
};

}  // namespace volador::head
