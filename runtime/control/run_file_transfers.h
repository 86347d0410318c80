// What a node or a program answers when the head asks for the files of a run on its machine: what lies there, and one
// piece of a file a question, so that a reader as slow as it likes holds an open file and nothing else.
//
//   begin (name) ──first piece──► open ──next──► open … ──last piece, an error, or end──► gone
//                                  └── not asked for within `idle`: gone
//
// No clock and no thread of its own; it reads files, by RunFiles.
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

struct RunFileLimits {
  size_t open = 64;  // Files at once; the next one is refused (kUnavailable).
  std::chrono::seconds idle{
      120};  // Longer than the slowest reader of the dashboard takes for a piece (HttpLimits::write_time).
};

class RunFileTransfers {
 public:
  // `first`: of the transfers' numbers, which should not repeat those of an earlier process.
  explicit RunFileTransfers(uint64_t first, const RunFileLimits& limits = {}) : limits_(limits), next_(first) {}

  // None: the question has no answer. Errors: as of RunFiles; kNotFound: no such transfer (any more); kUnavailable: too
  // many.
  std::optional<protocol::RunFilesAnswer> answer(BootTime now, const protocol::ReadRunFiles& question);
  // Ends what nobody asked for within the limit. When the next one is due; none: nothing is open.
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
