// volador.v1.Live over gRPC. What it tells is kept by the server that stands beside the head.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/result.h"

namespace grpc {
class Service;
}
namespace volador::v1 {
class ListRowsRequest;
class WatchRequest;
}  // namespace volador::v1

namespace volador::head {

class Gate;
class WatchStream;

// Whom the watch belongs to is known by the token behind it: where that ends, the watch does.
using OpenWatch = std::function<void(const v1::WatchRequest& request, std::string token_id, std::shared_ptr<WatchStream> stream)>;

// Answers with the page as JSON, once and on any thread, or drops `done` where it stops meanwhile.
using ListRows = std::function<void(const v1::ListRowsRequest& request, std::function<void(Result<std::string>)> done)>;

// Thread safe.
class LiveService {
 public:
  explicit LiveService(Gate& gate);
  ~LiveService();

  grpc::Service* service();
  // Null (the start): there is nobody to tell anything. Where this returns, the one before is not called any more.
  void set_watch(OpenWatch open);
  void set_list(ListRows list);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::head
