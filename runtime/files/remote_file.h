// A file of a run that is read from another machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/result.h"

namespace volador {

// Asynchronous counterpart of FilePieces: each piece is requested.
class LaterPieces {
 public:
  using Done = std::function<void(Result<std::string>)>;
  // Destruction before the end cancels the transfer.
  virtual ~LaterPieces() = default;
  // `done` runs once, on any thread, or never if the head stops; do not call next() again before that. Empty: end of
  // the file. An error: the earlier pieces are not the whole file.
  virtual void next(Done done) = 0;
};

// An opened file of another machine.
struct RemoteFile {
  std::string file_name;  // Suggested file name.
  std::string content_type;
  std::optional<uint64_t> length;  // In bytes, if known in advance.
  std::shared_ptr<LaterPieces> pieces;
};

}  // namespace volador
