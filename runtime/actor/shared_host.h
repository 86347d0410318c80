// Actors of a shared host: many in one process, their calls on shared threads (shared_threads.h).
//
//   HostStart ─► starts (constructor, as a first job) ─► ready ─► ends ─► ended (ActorEnded; no more commits)
//                        │ threw                                   ▲
//                        └── HostFailed, ActorEnded               └─ its destructor runs when its last call returned
//
// Ending an actor while a method runs drops the method's reply but cannot end its thread. The method sees
// cancel_requested().
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/actor/call_runner.h"
#include "runtime/ids.h"
#include "runtime/net/io_loop.h"
#include "runtime/protocol/host.pb.h"

namespace volador {

// Table of the actors of a shared host.
class SharedHost {
 public:
  // Per connection, over which a caller reaches all actors of the host.
  static constexpr size_t kCallsMax = 100'000;
  static constexpr size_t kCallsLeast =
      2'000;  // More than the number of threads: actors may wait for one another over one connection.
  static constexpr size_t kCallBytesMax = size_t{64} << 20;

  using Send = std::function<void(const protocol::FromHost&)>;

  // `first` provides node and folders, `process` the shared parts; both outlive this object.
  SharedHost(const protocol::HostStart& first, const CallRunner::Process& process, net::IoLoop& io, Send send);
  ~SharedHost();
  SharedHost(const SharedHost&) = delete;
  SharedHost& operator=(const SharedHost&) = delete;

  // Adds an actor. Repeated: no effect.
  void start(const protocol::HostStart& start);
  // Ends an actor. Its destructor runs if `grace` covers the running calls. Unknown: no effect.
  void end(const HostId& incarnation, std::chrono::milliseconds grace);
  void on_call(net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder);

  // Returns the incarnation of an actor of this host; nothing if it has ended.
  std::optional<HostId> incarnation_of(const ActorId& actor);

  // Raw HostId of the actor on this thread; empty: none.
  static std::string running_host();

  class Resident;
  class Member;
  class Light;

 private:
  class DestroyTask;
  class DestroyNestedTask;
  using MemberPtr = std::shared_ptr<Member>;

  void construct(const MemberPtr& member);
  Result<void> prepare(const MemberPtr& member);
  void fail(const MemberPtr& member, protocol::DeathCause::Kind kind, const std::string& message);
  void end(const MemberPtr& member, std::chrono::milliseconds grace);
  void finish(const MemberPtr& member);
  MemberPtr find(const ActorId& actor);
  // Nested actors: shared_lights.cc
  void on_light_call(net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder);
  static std::shared_ptr<Light> find_light(Member& home, net::CallRequest& request,
                                           std::shared_ptr<net::Responder>& responder, Error& gone);
  void call_light(std::shared_ptr<Light>&& light, net::CallRequest&& request,
                  std::shared_ptr<net::Responder>&& responder);
  void make_light(const MemberPtr& home, net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder);
  void make_light_itself(const MemberPtr& home, net::CallRequest&& request,
                         std::shared_ptr<net::Responder>&& responder);
  void leave_light(const MemberPtr& home, const std::shared_ptr<Light>& light, net::Responder& responder);
  void end_light(const MemberPtr& home, const ActorId& id, std::chrono::milliseconds grace, const Error& error);
  void end_lights(const MemberPtr& home, const Error& refusal, const Error& cut);
  static void remember_end(Member& home, const ActorId& light, const Error& error);

  const protocol::HostStart& first_;
  CallRunner::Process process_;
  net::IoLoop& io_;
  const Send send_;
  AdaptiveMutex mutex_;
  std::unordered_map<ActorId, MemberPtr> members_;
  std::unordered_map<HostId, ActorId> incarnations_;
  SharedThreads threads_;  // Destroyed before the state that its turns use.
};

}  // namespace volador
