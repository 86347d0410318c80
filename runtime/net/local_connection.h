// A caller in the process of the host: its calls reach the handler as they are made, without a socket between. The
// errors, the order and the limits are those of a connection over the Unix socket. What is answered comes over the
// loop's thread, or where the handler says so on its own. Private to the call server.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/adaptive_mutex.h"
#include "runtime/clock.h"
#include "runtime/net/channel.h"
#include "runtime/net/request_table.h"
#include "runtime/net/responder.h"

namespace volador::net {

class LocalCaller final : public std::enable_shared_from_this<LocalCaller> {
 public:
  struct Limits {
    size_t calls_max;  // Of the server: unanswered calls,
    size_t bytes_max;  // and their size.
    size_t later_max;  // Further ones, which are answered later.
  };
  LocalCaller(IoLoop& loop, CallHandler handler, Limits limits, ConnectionOptions options, std::string name,
              std::function<void(Error)> on_down);

  // As of CallConnection.
  void call(CallRequest&& request, CallDone&& done);
  void cancel(uint64_t request_id);
  void close();
  // The server ends: cancels what runs. After it returned the handler does not run any more. Not from inside the
  // handler.
  void end(const Error& why);

 private:
  using Response = ResponderOf<LocalCaller>;
  friend Response;
  using Lock = std::unique_lock<AdaptiveMutex>;
  struct Finished {
    CallDone done;
    Result<std::string> result;
  };
  struct Entry {
    CallDone done;  // None: its caller has its answer.
    size_t bytes = 0;
    BootTime deadline{};  // Zero: none.
    IoLoop::TimerId timer = 0;
    bool sent = false;
    bool later = false;                        // Answered later: takes no room among those that run.
    Response* response = nullptr;              // Of one that was sent: it takes this entry out before it ends.
    std::list<CallRequest>::iterator waiting;  // Of one that was not.
  };
  // What is to be done once the mutex is free.
  struct Cancels {
    std::vector<std::shared_ptr<Response>> responses;  // Perhaps their last owners.
    std::vector<std::function<void()>> functions;
    void run() {
      for (const auto& function : functions) function();
    }
  };

  // Under the mutex.
  bool has_room(size_t bytes) const {
    return running_ == 0 || (running_ < limits_.calls_max && running_bytes_ + bytes <= limits_.bytes_max);
  }
  Result<void> check(const CallRequest& request) const;
  std::shared_ptr<Response> begin(CallRequest& request, Entry& entry);
  void hand_over(Lock& lock, CallRequest&& request, std::shared_ptr<Response>&& response);
  void hand_over_waiting(Lock& lock);
  void hand_over_next(Lock& lock);
  void abandon(Entry& entry, Error error, Cancels& cancels);
  static void cancel(const std::shared_ptr<Response>& response, Cancels& cancels);
  static Result<std::string> as_sent(Result<std::string>&& result);
  void finish(CallDone&& done, Result<std::string>&& result);
  CallDone take_done(Response& response);

  void reply(Response& response, Result<std::string>&& result);
  void reply_here(Response& response, Result<std::string>&& result);
  const Peer& peer() const { return peer_; }
  void on_cancel(Response& response, std::function<void()> function);
  void answer_later(Response& response);
  void expire(uint64_t request_id);
  // Ends all calls: `of_sent` is what those get that were handed over.
  void shut(Error further, const Error& of_sent);
  void deliver();

  IoLoop& loop_;
  const CallHandler handler_;
  const Limits limits_;
  const ConnectionOptions options_;
  const std::string name_;
  const Peer peer_;

  mutable AdaptiveMutex mutex_;
  std::function<void(Error)> on_down_;
  std::optional<Error> down_;  // What further calls get.
  RequestTable<Entry> calls_;  // Waiting, sent and abandoned ones.
  std::list<CallRequest> waiting_;
  size_t waiting_bytes_ = 0;
  size_t running_ = 0;
  size_t running_bytes_ = 0;
  size_t later_ = 0;
  bool handing_over_ = false;  // A thread is at it: it takes what comes meanwhile, so that the order stays.
  std::condition_variable_any handed_over_;
  std::vector<Finished> finished_;  // For the loop's thread.
  bool delivering_ = false;         // Which was told, or is at it.
};

}  // namespace volador::net
