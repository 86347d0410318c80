// Program transfers: workers request programs, a driver uploads them, the cache stores them. A separate thread does the
// file I/O.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "head/shell/core_runner.h"
#include "head/shell/program_cache.h"
#include "runtime/clock.h"
#include "runtime/loop/event_loop.h"

namespace volador::head {

struct ProgramExchangeOptions {
  // A worker's request fails if no driver sends data of the program for this long.
  std::chrono::milliseconds silence_max{30'000};
};

class ProgramExchange {
 public:
  ProgramExchange(std::unique_ptr<ProgramCache> cache, CoreRunner& runner, const Clock& clock, LoopSystem& loops,
                  const ProgramExchangeOptions& options = {});
  ~ProgramExchange();

  // Runs the function on the exchange's thread, where it may block on files.
  void post(std::function<void()> function);
  void post_after(std::chrono::nanoseconds delay, std::function<void()> function);
  void stop();

  // Other files that workers fetch by hash, such as the code folders of jobs. `find` runs on the exchange's thread and
  // returns the path of the file with this hash (32 raw bytes), if it has it. nullptr: none; after that it does not run.
  void set_other_files(std::function<std::optional<std::filesystem::path>(const std::string& sha256)> find);

  // ---- on the exchange's thread, as is `done` ----

  using Found = std::function<void(Result<std::filesystem::path>)>;
  // Immediate if the cache has the program; otherwise a driver is asked for it. kNotFound: no connected driver has it;
  // kUnavailable: no driver sent it.
  void fetch(const std::string& sha256, Found done);

  using Begun = std::function<void(Result<std::unique_ptr<ProgramCache::Upload>>)>;
  // Null without an error: the head has the program already. kNotFound: no driver announced a program with this hash.
  void begin(const std::string& sha256, int64_t size, Begun done);
  // A piece of the upload has arrived; extends the wait of its requesters.
  void progressed(const std::string& sha256);
  // The upload is in the cache; replies to its requesters.
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
  std::mutex other_mutex_;
  std::function<std::optional<std::filesystem::path>(const std::string& sha256)> other_files_;
  EventLoop loop_;
};

}  // namespace volador::head
