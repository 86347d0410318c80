// A Redis server for tests: Debian's redis-server on a free loopback port, with files in a folder of the test.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace volador::testing {

class RedisServer {
 public:
  // With an append-only file unless `arguments` override it.
  explicit RedisServer(std::filesystem::path folder, std::vector<std::string> arguments = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  static bool installed();
  int port() const { return port_; }
  // Returns false if it does not respond.
  bool start();
  // Sends SIGKILL and waits.
  void kill();

 private:
  std::filesystem::path folder_;
  std::vector<std::string> arguments_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace volador::testing
