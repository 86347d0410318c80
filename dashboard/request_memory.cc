#include "dashboard/request_memory.h"

#include <fmt/format.h>

#include <utility>

#include "dashboard/api.h"

namespace volador::dashboard {

RequestMemory::Respond RequestMemory::once(const std::string& id, std::string_view what, const Respond& respond) {
  if (id.empty()) return respond;
  if (const auto found = known_.find(id); found != known_.end()) {
    Known& known = *found->second;
    if (known.what != what) {
      respond(problem(
          {ErrorCode::kInvalidArgument,
           fmt::format(
               "request_id: \"{}\" was another request: take a new one for each, and the same one only to repeat it",
               id.substr(0, 80))}));
    } else if (known.answer) {
      respond(*known.answer);
    } else {
      known.waiting.push_back(respond);
    }
    return nullptr;
  }
  const auto known = std::make_shared<Known>(Known{.what = std::string(what), .answer = {}, .waiting = {respond}});
  known_[id] = known;
  order_.push_back(id);
  if (order_.size() > kMost) {
    known_.erase(order_.front());
    order_.pop_front();
  }
  return [this, id, known](HttpResponse answer) {
    known->answer = std::move(answer);
    const bool failed = known->answer->status >= 400;
    if (const auto still = known_.find(id); failed && still != known_.end() && still->second == known) {
      known_.erase(still);
      std::erase(order_, id);
    }
    for (const Respond& one : std::exchange(known->waiting, {})) one(*known->answer);
  };
}

}  // namespace volador::dashboard
