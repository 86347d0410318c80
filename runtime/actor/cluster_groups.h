// Placement groups of a ClusterSession: requests to the head and their replies.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "runtime/actor/group_session.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/random.h"

namespace volador {

// GroupSession of a ClusterSession. Thread safe.
class ClusterGroups final : public GroupSession {
 public:
  using Answer = std::function<void(Result<protocol::Reply>)>;
  struct Options {
    Random* random = nullptr;  // Thread safe.
    DriverId driver;
    std::string program_sha256;
    // Sends the request, repeatedly after reconnects, until it is answered.
    std::function<void(const RequestId& id, protocol::ClientMessage message, Answer answer)> ask;
    std::chrono::milliseconds patience{30'000};  // Time limit of find() and status().
  };
  explicit ClusterGroups(Options options) : options_(std::move(options)) {}

  GroupId create(const GroupAsk& ask, Done done) override;
  void when_ready(const GroupId& group, Done done) override;
  void remove(const GroupId& group, Done done) override;
  Result<GroupStatus> find(const std::string& name) override;
  Result<GroupStatus> status(const GroupId& group) override;

 private:
  Result<GroupStatus> wait_for(protocol::FindGroup find);
  void ask_about(protocol::FindGroup find, Done done);

  const Options options_;
};

}  // namespace volador
