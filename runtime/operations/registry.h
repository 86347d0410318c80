// Handlers of the head's operations. gRPC and HTTP servers call operations here; modules of the head, and services beside it, serve them.
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "runtime/request_memory.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::operations {

struct Entry;

// Thread safe.
class Registry {
 public:
  using Message = google::protobuf::Message;
  using Principal = security::Principal;
  template <class T>
  using Done = std::function<void(Result<T>)>;
  using Reply = std::shared_ptr<const Message>;

  Registry();

  // Registers the handler of an operation: "Cluster/Drain". The handler must not block, and calls `done` at most once, on any thread; a
  // handler that drops `done` leaves the call without a reply. Aborts where the operation does not exist, has other message types, or
  // has a handler.
  template <class Request, class ReplyType>
  void serve(std::string_view name,
             std::function<void(const Principal& by, const Request& request, Done<ReplyType> done)> handler) {
    add(name, Request::descriptor(), ReplyType::descriptor(),
        [handler = std::move(handler)](const Principal& by, const Message& request, Done<Reply> done) {
          handler(by, static_cast<const Request&>(request), [done = std::move(done)](Result<ReplyType> reply) {
            if (!reply) return done(make_error(reply.error()));
            done(std::make_shared<const ReplyType>(std::move(*reply)));
          });
        });
  }

  // Removes the handlers of a service, and returns when none of them is being called. Calls then fail with kNotFound.
  void withdraw(std::string_view service);
  // The error of calls to a service that has no handler, kNotFound by default.
  void set_absent(std::string_view service, std::string message, ErrorCode code = ErrorCode::kNotFound);

  // kPermissionDenied: the principal's role may not call it; kNotFound, unless set_absent() says otherwise: it has no handler. Otherwise as the handler answers. The request's
  // type is the operation's, else this aborts. A repeated request_id of an operation with `once` gets the reply of the first call.
  void call(std::string_view name, const Principal& by, const Message& request, Done<Reply> done);
  template <class ReplyType>
  void call(std::string_view name, const Principal& by, const Message& request, Done<ReplyType> done) {
    call(name, by, request, Done<Reply>([done = std::move(done)](Result<Reply> reply) {
           if (!reply) return done(make_error(reply.error()));
           done(ReplyType(static_cast<const ReplyType&>(**reply)));
         }));
  }

  // Unary operations of a service that have no handler, for tests.
  std::vector<std::string> unserved(std::string_view service) const;

 private:
  using Handler = std::function<void(const Principal& by, const Message& request, Done<Reply> done)>;
  void add(std::string_view name, const google::protobuf::Descriptor* request,
           const google::protobuf::Descriptor* reply, Handler handler);
  Error absent(const Entry& entry) const;

  mutable std::shared_mutex mutex_;  // Held shared while a handler is called.
  std::map<std::string, Handler, std::less<>> handlers_;
  std::map<std::string, Error, std::less<>> absent_;
  RequestMemory<Result<Reply>> requests_;
};

}  // namespace volador::operations
