// A host's process, as host_processes*.cc keep it. Only they include this.
#pragma once

#include <sys/epoll.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/hosts/host_processes.h"

namespace volador::worker {

struct HostProcesses::Host final : net::Pollable {
  struct Packet {
    std::string bytes;
    net::UniqueFd fd;
  };

  HostProcesses* owner = nullptr;
  std::weak_ptr<Host> self;
  HostId id;
  protocol::StartHost start;
  ProgramStart program;
  std::string path;
  std::optional<security::Credentials> credentials;
  std::unique_ptr<LogCapture> output;
  net::UniqueFd control;
  bool writing = false;  // EPOLLOUT is watched.
  std::deque<Packet> outbox;
  size_t outbox_bytes = 0;
  pid_t pid = 0;
  bool told = false;
  bool shared = false;  // Holds the actors that SharedHosts says, none of which is `id` or `start` in particular.
  std::vector<HostId> pending;  // Of them: those that came before the process stood, in their order.
  bool cancelled = false;
  bool forking = false;
  bool ended = false;  // Its actor has; told, before the process is gone.
  bool ahead = false;  // It was forked before it was asked for: environment and directory come with HostStart.
  // Of a process that was forked ahead, so that another one can take its place when it ends before it has read anything:
  std::string start_message;     // HostStart, as it was sent.
  uint64_t packets_sent = 0;     // To this process.
  bool start_unread = false;     // It ended, and what was sent first lay in its socket.
  std::optional<HostExit> lost;  // How the process before this one ended so.
  int tries = 0;
  std::filesystem::path scratch;
  bool in_scratch = false;  // It works there: the program's own directory is not on this node.
  net::IoLoop::TimerId term_timer = 0;
  net::IoLoop::TimerId kill_timer = 0;
  BootTime kill_at = BootTime::max();

  void on_events(uint32_t events) override {
    if (owner == nullptr) return;
    const HostPtr alive = self.lock();
    if (control && (events & EPOLLOUT) != 0) owner->flush(alive);
    if (control && (events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) owner->read(alive);
  }
};

}  // namespace volador::worker
