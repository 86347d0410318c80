// A real store and real clients in one process: sockets, shared memory, threads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "runtime/random.h"
#include "runtime/store/store_client.h"
#include "tests/temporary_directory.h"
#include "worker/store/store_server.h"

namespace volador::worker {

class StoreServerTest : public ::testing::Test {
 protected:
  TemporaryDirectory folder;
  SystemClock clock;
  SystemRandom random;

  std::unique_ptr<StoreServer> start(const std::string& name, int64_t bytes_max = 64 << 20,
                                     std::chrono::nanoseconds patience = std::chrono::seconds(10),
                                     int64_t spill_bytes_max = 0) {
    StoreServerOptions options;
    options.socket = folder.path() / (name + ".sock");
    options.node = new_id<NodeId>(random);
    options.node_name = name;
    options.limits.bytes_max = bytes_max;
    options.limits.room_patience = patience;
    options.limits.spill_bytes_max = spill_bytes_max;
    options.spill_folder = folder.path() / (name + "-spill");
    auto made = StoreServer::create(std::move(options), clock, random);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  std::unique_ptr<StoreClient> connect(const std::string& name, const std::string& who = "driver test") {
    StoreClientOptions options;
    options.find_store = [path = (folder.path() / (name + ".sock")).string()]() -> Result<std::string> { return path; };
    options.who = who;
    return std::make_unique<StoreClient>(std::move(options));
  }
  static std::shared_ptr<const StoredObject> put(StoreClient& client, size_t bytes, uint8_t fill) {
    auto draft = client.create(bytes);
    EXPECT_TRUE(draft) << draft.error().message;
    if (!draft) return nullptr;
    std::memset((*draft)->space().data(), fill, bytes);
    auto sealed = client.seal(std::move(*draft), {"test", "train.cc:41"});
    EXPECT_TRUE(sealed);
    return *sealed;
  }
  static bool holds(const StoredObject& object, size_t bytes, uint8_t fill) {
    const auto view = object.view(std::chrono::seconds(20));
    EXPECT_TRUE(view) << view.error().message;
    if (!view || view->size() != bytes) return false;
    return std::all_of(view->begin(), view->end(), [fill](std::byte byte) { return byte == std::byte{fill}; });
  }
  // Waits until the store confirms it, since messages are asynchronous.
  template <class F>
  static bool eventually(F condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
};

}  // namespace volador::worker
