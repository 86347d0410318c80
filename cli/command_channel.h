// A command, or a connection, in a rank of a job: the operations that start it and pass its bytes on.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::cli {

// After start() thread safe, except where it says otherwise.
class CommandChannel {
 public:
  // The API outlives this object.
  CommandChannel(control::ClusterApi& api, std::string job, int rank) : api_(api), job_(std::move(job)), rank_(rank) {}

  // Starts what the request describes; its job, rank and id are filled in. Once.
  [[nodiscard]] Result<void> start(v1::StartCommandRequest request);
  // Waits for output for up to `wait`. By one thread at a time.
  [[nodiscard]] Result<v1::ReadCommandReply> read(std::chrono::milliseconds wait);
  // Gives input, `end` after the last. While the command has not read what it got before, or the head is away, this is
  // tried again after pause(time), which waits so long; false gives up. Nothing happens if the command has ended.
  [[nodiscard]] Result<void> give(const std::string& bytes, bool end,
                                  const std::function<bool(std::chrono::milliseconds time)>& pause);
  // The named signal; the new size of its terminal; its caller is gone.
  void signal(const std::string& name);
  void resize(int rows, int columns);
  void close();

 private:
  v1::WriteCommandRequest write_request() const;
  void write(const v1::WriteCommandRequest& request);

  control::ClusterApi& api_;
  const std::string job_;
  const int rank_;
  std::string command_;
};

}  // namespace volador::cli
