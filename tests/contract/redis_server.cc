#include "tests/contract/redis_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

namespace volador::testing {
namespace {

constexpr const char* kProgram = "/usr/bin/redis-server";

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

bool answers(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(port);
  bool pong = false;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && write(fd, "PING\r\n", 6) == 6) {
    char first = 0;
    // "+PONG", or "-NOAUTH" with a password; "-LOADING": not ready yet.
    pong = read(fd, &first, 1) == 1 && (first == '+' || (read(fd, &first, 1) == 1 && first == 'N'));
  }
  close(fd);
  return pong;
}

}  // namespace

RedisServer::RedisServer(std::filesystem::path folder, std::vector<std::string> arguments)
    : folder_(std::move(folder)), arguments_(std::move(arguments)), port_(free_port()) {}

RedisServer::~RedisServer() { kill(); }

bool RedisServer::installed() { return access(kProgram, X_OK) == 0; }

bool RedisServer::start() {
  std::vector<std::string> words{kProgram,
                                 "--port",
                                 std::to_string(port_),
                                 "--bind",
                                 "127.0.0.1",
                                 "--dir",
                                 folder_,
                                 "--save",
                                 "",
                                 "--daemonize",
                                 "no",
                                 "--logfile",
                                 folder_ / "redis.log",
                                 "--appendonly",
                                 "yes"};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    execv(kProgram, argv.data());
    _exit(127);
  }
  for (int i = 0; i < 500; ++i) {
    if (answers(port_)) return true;
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = 0;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

void RedisServer::kill() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

}  // namespace volador::testing
