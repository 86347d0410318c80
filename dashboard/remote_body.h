// Download of a file on another machine: requests one piece ahead while the previous one is being written, so that a
// client costs at most two pieces and a fast one need not wait for each. On the server's thread.
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

// Create with std::make_shared.
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
  std::optional<Result<std::string>> ahead_;  // A piece that arrived before it was requested.
  bool asked_ = false;
  bool ended_ = false;  // ahead_ was the last piece: empty, or an error.
};

}  // namespace volador::dashboard
