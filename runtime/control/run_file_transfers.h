// Answers the head's requests for files of a run on this machine: listings, and one piece of a file per request, so
// that a slow reader occupies only an open file.
//
//   begin (name) ──first piece──► open ──next──► open … ──last piece, an error, or end──► gone
//                                  └── not requested within `idle`: gone
//
// No clock or thread of its own; reads files with RunFiles.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "runtime/clock.h"
#include "runtime/files/run_files.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador::control {

// Limits of open transfers.
struct RunFileLimits {
  size_t open = 64;  // Concurrently open files; further ones are rejected (kUnavailable).
  std::chrono::seconds idle{
      120};  // Longer than the dashboard's slowest reader takes for a piece (HttpLimits::write_time).
};

// Table of open transfers. Not thread safe.
class RunFileTransfers {
 public:
  // `first`: first transfer number; should not repeat those of an earlier process.
  explicit RunFileTransfers(uint64_t first, const RunFileLimits& limits = {}) : limits_(limits), next_(first) {}

  // Returns nothing if the request needs no answer. Errors as RunFiles; kNotFound: unknown transfer; kUnavailable: too
  // many.
  std::optional<protocol::RunFilesAnswer> answer(BootTime now, const protocol::ReadRunFiles& question);
  // Ends transfers beyond the idle limit. Returns when the next one expires; nothing if none is open.
  std::optional<BootTime> expire(BootTime now);
  size_t open() const { return transfers_.size(); }

 private:
  struct Transfer {
    std::unique_ptr<FilePieces> pieces;
    BootTime asked;
    uint64_t sent = 0;
  };
  Result<void> list(const protocol::ReadRunFiles& question, protocol::RunFilesAnswer& answer) const;
  Result<void> begin(BootTime now, const protocol::ReadRunFiles& question, protocol::RunFilesAnswer& answer);
  Result<void> go_on(BootTime now, uint64_t transfer, protocol::RunFilesAnswer& answer);

  const RunFileLimits limits_;
  uint64_t next_;
  std::map<uint64_t, Transfer> transfers_;
};

}  // namespace volador::control
