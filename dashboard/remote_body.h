// What a client downloads of a file on another machine: one piece is asked for ahead, while the one before is being
// written, so that a client costs two pieces at most and a fast one does not wait for each. On the server's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dashboard/downloads.h"
#include "dashboard/http_server.h"
#include "runtime/files/remote_file.h"

namespace volador::dashboard {

// Made by std::make_shared.
class RemoteBody final : public BodySource, public std::enable_shared_from_this<RemoteBody> {
 public:
  RemoteBody(std::shared_ptr<LaterPieces> pieces, std::optional<uint64_t> length, ToHere to_here)
      : pieces_(std::move(pieces)), length_(length), to_here_(std::move(to_here)) {}

  std::optional<uint64_t> length() const override { return length_; }
  void next(Done done) override;

 private:
  void ask();
  void arrived(Result<std::string> piece);
  void hand_over();

  const std::shared_ptr<LaterPieces> pieces_;
  const std::optional<uint64_t> length_;
  const ToHere to_here_;
  Done waiting_;                              // For the next piece.
  std::optional<Result<std::string>> ahead_;  // Has come before it was wanted.
  bool asked_ = false;
  bool ended_ = false;  // ahead_ was the last: an empty one, or an error.
};

}  // namespace volador::dashboard
