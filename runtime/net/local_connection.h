// Connection of a caller in the host's own process: calls reach the handler directly, without a socket. Errors, order
// and limits are those of a Unix socket connection. Replies are delivered on the loop's thread, or on the handler's
// thread with reply_here(). Private to the call server.
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

// Connection and flow control of one caller in the host's process. Thread safe.
class LocalCaller final : public std::enable_shared_from_this<LocalCaller> {
 public:
  struct Limits {
    size_t calls_max;  // Maximum of unanswered calls of the server.
    size_t bytes_max;  // Maximum of their total size.
    size_t later_max;  // Further calls that are answered later.
  };
  LocalCaller(IoLoop& loop, CallHandler handler, Limits limits, ConnectionOptions options, std::string name,
              std::function<void(Error)> on_down);

  // As for CallConnection.
  void call(CallRequest&& request, CallDone&& done);
  void cancel(uint64_t request_id);
  void close();
  // Called at the end of the server: cancels running calls. The handler does not run after it returns. Not from inside
  // the handler.
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
    CallDone done;  // Empty: the caller has its result.
    size_t bytes = 0;
    BootTime deadline{};  // Zero: none.
    IoLoop::TimerId timer = 0;
    bool sent = false;
    bool later = false;                        // Answered later: not counted among the running calls.
    Response* response = nullptr;              // For a sent call: the responder removes this entry at its end.
    std::list<CallRequest>::iterator waiting;  // For a queued call.
  };
  // Work to do after unlocking the mutex.
  struct Cancels {
    std::vector<std::shared_ptr<Response>> responses;  // May be the last owners.
    std::vector<std::function<void()>> functions;
    void run() {
      for (const auto& function : functions) function();
    }
  };

  // Call with the mutex held.
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
  // Ends all calls; `of_sent` is the error of those already handed over.
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
  std::optional<Error> down_;  // Error for further calls.
  RequestTable<Entry> calls_;  // Queued, sent and abandoned calls.
  std::list<CallRequest> waiting_;
  size_t waiting_bytes_ = 0;
  size_t running_ = 0;
  size_t running_bytes_ = 0;
  size_t later_ = 0;
  bool handing_over_ = false;  // A thread is handing over calls: it also takes later ones, which keeps the order.
  std::condition_variable_any handed_over_;
  std::vector<Finished> finished_;  // For delivery on the loop's thread.
  bool delivering_ = false;         // The loop's thread was notified or is delivering.
};

}  // namespace volador::net
