// Calls of the head's jobs to the ranks of jobs (jobs/command.h): connections of the head's process to the hosts of the
// ranks, which it learns from the stream of the jobs' driver.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/actor/actor_class.h"
#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"
#include "runtime/serialize/codec.h"

namespace volador {

// Thread safe; nothing waits.
class RankCalls {
 public:
  struct Parts {
    std::function<void(protocol::ClientMessage)> send;  // To the head, as the jobs' driver; any thread.
    const Clock& clock;                                 // Outlives this object.
    DriverId driver;
    std::string machine_id;
    security::Credentials credentials;  // For hosts on other machines.
  };
  // kUnavailable: there are no descriptors or threads.
  static Result<std::unique_ptr<RankCalls>> create(Parts parts);
  // Ends all calls with kCancelled.
  ~RankCalls();
  RankCalls(const RankCalls&) = delete;
  RankCalls& operator=(const RankCalls&) = delete;

  // The stream to the head is open (again).
  void on_connected();
  void on_message(const protocol::HeadMessage& message);

  // Calls a method of a rank: call<&Command::pid>(actor, 5s, done). `done` runs once, on any thread, also before this
  // returns. kTimeout: the time has passed. Calls to one rank run in their order.
  template <auto M, class Reply, class... A>
  void call(const ActorId& rank, std::chrono::milliseconds timeout, std::function<void(Result<Reply>)> done,
            A&&... given) {
    using S = registration::Signature<decltype(M)>;
    start(rank, function_id<M>(), registration::TupleCodec<typename S::Arguments>::encode(std::forward<A>(given)...),
          timeout, [done = std::move(done)](const Result<std::string>& reply) {
            done(reply ? from_bytes<Reply>(*reply) : make_error(reply.error()));
          });
  }

 private:
  struct Impl;
  explicit RankCalls(std::unique_ptr<Impl> impl);
  void start(const ActorId& rank, uint64_t method, std::string arguments, std::chrono::milliseconds timeout,
             std::function<void(const Result<std::string>&)> done);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador
