// A Redis server of a test's own: Debian's redis-server on a free port of the loopback, its files in a folder of the test.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace volador::testing {

class RedisServer {
 public:
  // With an append-only file, unless `arguments` say otherwise.
  explicit RedisServer(std::filesystem::path folder, std::vector<std::string> arguments = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  static bool installed();
  int port() const { return port_; }
  // False: it does not answer.
  bool start();
  // SIGKILL, waited for.
  void kill();

 private:
  std::filesystem::path folder_;
  std::vector<std::string> arguments_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace volador::testing
