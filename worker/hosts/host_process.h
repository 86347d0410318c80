// State of a host's process. Included by host_processes*.cc only.
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

// Process, sockets and state of one host.
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
  std::string files;  // Path of the actor's files; empty: it has none, or they are not here yet.
  std::optional<security::Credentials> credentials;
  std::unique_ptr<LogCapture> output;
  net::UniqueFd control;
  bool writing = false;  // EPOLLOUT is watched.
  std::deque<Packet> outbox;
  size_t outbox_bytes = 0;
  pid_t pid = 0;
  bool told = false;
  bool shared = false;  // A shared host for the actors in SharedHosts; `id` and `start` are of no particular actor.
  std::vector<HostId> pending;  // Actors that arrived before the process existed, in order.
  bool cancelled = false;
  bool forking = false;
  bool ended = false;  // Its actor has ended; reported before the process is gone.
  bool ahead = false;  // Prestarted: environment and directory come with HostStart.
  // For a prestarted process, so that it can be replaced if it ends before it has read anything:
  std::string start_message;     // HostStart as sent.
  uint64_t packets_sent = 0;     // Number of packets sent to this process.
  bool start_unread = false;     // It ended with the first packet unread.
  std::optional<HostExit> lost;  // How the previous process ended that way.
  int tries = 0;
  HostGroups::GroupPtr group;  // Null without groups.
  std::filesystem::path scratch;
  bool in_scratch = false;  // It runs in `scratch`, because the program's directory is not on this node.
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
