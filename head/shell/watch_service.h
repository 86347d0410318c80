// The streaming operation Live/Watch. The server that holds the live state (the dashboard) sends the messages.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::v1 {
class WatchReply;
class WatchRequest;
}  // namespace volador::v1

namespace volador::head {

class WatchStream;

// Opens a watch; it ends with the token of its caller.
using OpenWatch = std::function<void(const v1::WatchRequest& request, const security::Principal& by,
                                     std::shared_ptr<WatchStream> stream)>;

// Thread safe.
class WatchService {
 public:
  grpc::ServerWriteReactor<v1::WatchReply>* open(const Result<security::Principal>& by,
                                                 const v1::WatchRequest& request);
  // Null (initially): watches fail with kNotFound. After the return the previous function is not called any more.
  void set_watch(OpenWatch open);

 private:
  std::mutex mutex_;
  OpenWatch open_;
};

}  // namespace volador::head
