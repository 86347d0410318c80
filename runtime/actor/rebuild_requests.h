// Pending requests of this process to owners of lost objects.
// Pure: no clock, thread or I/O.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador {

// Table of pending requests. Not thread safe.
class RebuildRequests {
 public:
  using Done = std::function<void(Result<std::string>)>;

  void add(protocol::RebuildObject message, Done done) {
    std::string id = message.request_id();
    asked_.insert_or_assign(std::move(id), Asked{std::move(message), std::move(done)});
  }
  // Null: unknown or already completed.
  Done take(const std::string& request_id) {
    auto found = asked_.extract(request_id);
    return found.empty() ? Done() : std::move(found.mapped().done);
  }
  std::vector<Done> take_all() {
    std::vector<Done> all;
    for (auto& [id, asked] : asked_) all.push_back(std::move(asked.done));
    asked_.clear();
    return all;
  }
  std::vector<protocol::RebuildObject> messages() const {
    std::vector<protocol::RebuildObject> all;
    for (const auto& [id, asked] : asked_) all.push_back(asked.message);
    return all;
  }
  size_t size() const { return asked_.size(); }

 private:
  struct Asked {
    protocol::RebuildObject message;
    Done done;
  };
  std::map<std::string, Asked> asked_;  // By request id.
};

// Returns the reference to the replacement, or the error.
inline Result<std::string> outcome_of(const protocol::ObjectRebuilt& answer) {
  if (answer.error().code() != 0)
    return make_error(error_code_from(int64_t{answer.error().code()}), answer.error().message());
  return answer.reference();
}

}  // namespace volador
