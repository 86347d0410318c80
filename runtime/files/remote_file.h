// A file of a run that lies on another machine, as it comes from there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/result.h"

namespace volador {

// As FilePieces, later: each comes when it is asked for.
class LaterPieces {
 public:
  using Done = std::function<void(Result<std::string>)>;
  // Before the end: whoever reads the file is told that the rest is not wanted.
  virtual ~LaterPieces() = default;
  // `done` runs once, on any thread, or never where the head stops meanwhile; not to be called again before that.
  // Empty: that was all. An error: what came before is not the whole file.
  virtual void next(Done done) = 0;
};

struct RemoteFile {
  std::string file_name;  // To be saved under.
  std::string content_type;
  std::optional<uint64_t> length;  // In bytes, where it is known before.
  std::shared_ptr<LaterPieces> pieces;
};

}  // namespace volador
