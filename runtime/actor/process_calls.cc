#include "runtime/actor/process_calls.h"

#include <map>
#include <utility>

namespace volador::internal {
namespace {

std::map<uint64_t, ProcessCall>& process_calls() {
  static auto* calls = new std::map<uint64_t, ProcessCall>();
  return *calls;
}

}  // namespace

void set_process_call(uint64_t method, ProcessCall answer) { process_calls()[method] = std::move(answer); }

const ProcessCall* find_process_call(uint64_t method) {
  const auto found = process_calls().find(method);
  return found == process_calls().end() ? nullptr : &found->second;
}

}  // namespace volador::internal
