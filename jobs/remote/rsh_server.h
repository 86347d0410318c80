// The rank's end of `volador job-rsh`: listens on a socket in the job's folder and starts commands on other ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jobs/remote/remote_commands.h"
#include "jobs/remote/ssh_arguments.h"
#include "runtime/result.h"

namespace volador::jobs {

// A command on another rank. start() and then next() are called by one thread, input() by another, the rest by any.
class RemoteRun {
 public:
  virtual ~RemoteRun() = default;
  // Waits until the rank is up and has started the command. Throws Exception if it cannot.
  virtual void start() = 0;
  // Waits for events; the last one is kEnded. Throws Exception if the rank is lost or the command was abandoned.
  virtual std::vector<RemoteEvent> next() = 0;
  // After start(). Returns when the command has taken the bytes or has ended.
  virtual void input(std::string bytes, bool last) = 0;
  // After start().
  virtual void send(int signal) = 0;
  // The caller is gone: the command is ended, and start() and next() return or throw soon.
  virtual void abandon() = 0;
};

class RshServer {
 public:
  using Start = std::function<std::unique_ptr<RemoteRun>(size_t rank, const std::string& command_line, bool input)>;

  // Listens in the folder until the server is destroyed. kUnavailable: the socket cannot be made.
  static Result<std::unique_ptr<RshServer>> create(const std::filesystem::path& folder, std::vector<Peer> peers,
                                                   size_t own_rank, Start start);
  // Abandons all commands and waits for their ends.
  ~RshServer();
  RshServer(const RshServer&) = delete;
  RshServer& operator=(const RshServer&) = delete;

 private:
  struct Impl;
  explicit RshServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::jobs
