// Moves objects between memory and the spill file on one writing and one reading thread, so that a slow disk delays
// only those who wait for it. Both threads start with their first job.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/result.h"
#include "worker/store/spill_file.h"
#include "worker/store/store_table.h"

namespace volador {
class Mapping;
namespace net {
class IoLoop;
}
}  // namespace volador

namespace volador::worker {

// Called by one thread; callbacks run on the disk threads. Jobs of a kind run in order.
class SpillIo {
 public:
  explicit SpillIo(std::unique_ptr<SpillFile> file);
  // Waits for running jobs; queued jobs fail.
  ~SpillIo();

  // Keeps `memory` until `done`; `progress` is called from time to time. Errors as SpillFile::write.
  void write(const StoreActions::Spill& job, std::shared_ptr<Mapping> memory, std::function<void()> progress,
             std::function<void(Result<SpillSums>)> done);
  // Errors as SpillFile::read.
  void read(const SpillPlace& from, std::shared_ptr<Mapping> into, std::function<void(Result<void>)> done);
  void read_part(const SpillPlace& from, int64_t offset, int64_t bytes, std::function<void(Result<std::string>)> done);
  void discard(const SpillPlace& place);

  const SpillFile& file() const { return *file_; }

 private:
  static void post(std::unique_ptr<net::IoLoop>& thread, const char* name, std::function<void()> job,
                   const std::function<void(Error)>& failed);

  const std::unique_ptr<SpillFile> file_;
  const std::shared_ptr<std::atomic<bool>> closing_;
  std::unique_ptr<net::IoLoop> writer_;
  std::unique_ptr<net::IoLoop> reader_;
};

}  // namespace volador::worker
