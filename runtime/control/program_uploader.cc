#include "runtime/control/program_uploader.h"

#include <utility>

#include "runtime/log.h"

namespace volador::control {

void ProgramUploader::request(uint64_t connection) {
  const std::lock_guard<std::mutex> hold(mutex_);
  if (stopped_) return;
  connection_ = connection;
  wanted_ = true;
  if (running_ && running_for_ != connection) cancel_.request_stop();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void ProgramUploader::stop() {
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    stopped_ = true;
    cancel_.request_stop();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void ProgramUploader::run() {
  std::unique_lock<std::mutex> hold(mutex_);
  while (true) {
    changed_.wait(hold, [this] { return stopped_ || wanted_; });
    if (stopped_) return;
    wanted_ = false;
    running_ = true;
    running_for_ = connection_;
    cancel_ = std::stop_source();
    const std::stop_token token = cancel_.get_token();
    hold.unlock();
    const auto sent = upload_(token);
    if (!sent && !token.stop_requested())
      log::warn("driver", "the program could not be sent to the head", {{"error", sent.error().message}});
    hold.lock();
    running_ = false;
    if (sent && running_for_ == connection_) wanted_ = false;  // Also answers later requests on the same connection.
  }
}

}  // namespace volador::control
