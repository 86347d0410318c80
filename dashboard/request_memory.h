// Requests with an id of their client's choice, answered once: one that comes again gets the answer of the first time.
// One thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/http_server.h"

namespace volador::dashboard {

class RequestMemory {
 public:
  using Respond = HttpHandler::Respond;
  static constexpr size_t kMost = 1000;  // The newest.
  static constexpr size_t kIdBytes = 1024;

  // What to answer a request with that is to be carried out; null: it came before, and is answered, now or together
  // with the first. `what` it asks for must be the same each time. What failed is carried out anew. Without an id:
  // `respond` itself.
  Respond once(const std::string& id, std::string_view what, const Respond& respond);

 private:
  struct Known {
    std::string what;
    std::optional<HttpResponse> answer;
    std::vector<Respond> waiting;
  };
  std::map<std::string, std::shared_ptr<Known>> known_;
  std::deque<std::string> order_;
};

}  // namespace volador::dashboard
