// A loop, a temporary folder for sockets, and calls with awaitable results.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/net/channel.h"

namespace volador::net {

// Fails the test instead of hanging.
inline constexpr auto kPatience = std::chrono::seconds(30);

class PendingResult {
 public:
  explicit PendingResult(std::shared_future<Result<std::string>> future) : future_(std::move(future)) {}
  bool ready() const { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  Result<std::string> get() const {
    if (future_.wait_for(kPatience) != std::future_status::ready)
      return make_error(ErrorCode::kInternal, "test: no result");
    return future_.get();
  }

 private:
  std::shared_future<Result<std::string>> future_;
};

inline PendingResult start_call(CallConnection& connection, uint64_t id, std::string body,
                                std::chrono::nanoseconds timeout = {}) {
  auto promise = std::make_shared<std::promise<Result<std::string>>>();
  PendingResult pending(promise->get_future().share());
  connection.call({.request_id = id, .timeout = timeout, .body = std::move(body)},
                  [promise](Result<std::string> result) { promise->set_value(std::move(result)); });
  return pending;
}

// A condition set by another thread.
class Signal {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

template <class Condition>
bool eventually(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "volador-net-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    auto loop = IoLoop::create();
    EXPECT_TRUE(loop.has_value());
    loop_ = *std::move(loop);
  }
  ~ChannelTest() override {
    server_.reset();
    loop_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string path() const { return (folder_ / "actor.sock").string(); }

  void serve(std::function<void(CallRequest&&, std::shared_ptr<Responder>&&)> handler, ServerOptions options = {}) {
    options.unix_path = path();
    auto server = CallServer::create(*loop_, std::move(options), each_call(std::move(handler)));
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = *std::move(server);
  }
  void serve_echo(ServerOptions options = {}) {
    serve([](CallRequest request,
             const std::shared_ptr<Responder>& responder) { responder->reply(std::move(request.body)); },
          std::move(options));
  }
  std::shared_ptr<CallConnection> connect(ConnectionOptions options = {}, std::function<void(Error)> on_down = {}) {
    return CallConnection::connect(*loop_, UnixEndpoint{path()}, std::move(options), std::move(on_down));
  }

  std::filesystem::path folder_;
  std::unique_ptr<IoLoop> loop_;
  std::unique_ptr<CallServer> server_;
};

}  // namespace volador::net
