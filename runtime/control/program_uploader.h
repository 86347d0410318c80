// Sends this process's program to the head on request, on its own thread, so that the requesting thread never waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "runtime/result.h"

namespace volador::control {

// Thread that uploads the program on request. Thread safe.
class ProgramUploader {
 public:
  // Returns early when its token requests a stop.
  using Upload = std::function<Result<void>(const std::stop_token&)>;

  explicit ProgramUploader(Upload upload) : upload_(std::move(upload)) {}
  ~ProgramUploader() { stop(); }
  ProgramUploader(const ProgramUploader&) = delete;
  ProgramUploader& operator=(const ProgramUploader&) = delete;

  // Handles the head's request on the connection of this number; never blocks. A running upload of an earlier
  // connection is cancelled and replaced. A running one of this connection continues; if it fails, it is repeated.
  // After stop(): no effect.
  void request(uint64_t connection);
  // Cancels the upload and waits for its end. Repeatable.
  void stop();

 private:
  void run();

  const Upload upload_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  bool wanted_ = false;  // Another upload is needed.
  bool running_ = false;
  uint64_t connection_ = 0;   // Connection of the newest request.
  uint64_t running_for_ = 0;  // Connection of the running upload.
  std::stop_source cancel_;   // For the running upload.
  std::thread thread_;
};

}  // namespace volador::control
