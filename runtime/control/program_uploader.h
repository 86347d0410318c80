// Sends the program of this process to the head when the head asks for it, on a thread of its own: who hands on the question never waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "runtime/result.h"

namespace volador::control {

// Thread safe.
class ProgramUploader {
 public:
  // Returns early once its token says so.
  using Upload = std::function<Result<void>(const std::stop_token&)>;

  explicit ProgramUploader(Upload upload) : upload_(std::move(upload)) {}
  ~ProgramUploader() { stop(); }
  ProgramUploader(const ProgramUploader&) = delete;
  ProgramUploader& operator=(const ProgramUploader&) = delete;

  // The head asks for the program on the connection of this number; never blocks. An upload that began for another connection went to a
  // head that is gone: it is cancelled, and another begins. One for this connection goes on; where it fails, another follows. After stop():
  // no effect.
  void request(uint64_t connection);
  // Cancels the upload and waits for its end. Repeated: no effect.
  void stop();

 private:
  void run();

  const Upload upload_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  bool wanted_ = false;              // Another upload is.
  bool running_ = false;
  uint64_t connection_ = 0;          // Of the newest request.
  uint64_t running_for_ = 0;         // Of the upload that runs.
  std::stop_source cancel_;          // Of the upload that runs.
  std::thread thread_;
};

}  // namespace volador::control
