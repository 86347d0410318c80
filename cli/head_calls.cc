#include "cli/head_calls.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/control/cluster_api.h"

namespace volador::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAgainFirst{100}, kAgainMax{5000};

bool is_away(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout ||
         error.code == ErrorCode::kUnknownOutcome;
}

}  // namespace

HeadCalls::HeadCalls(Connect connect, std::function<void(const std::string&)> told)
    : connect_(std::move(connect)), told_(std::move(told)) {}
HeadCalls::~HeadCalls() = default;

tl::expected<void, Failure> HeadCalls::call(const char* operation, const google::protobuf::Message& request,
                                            google::protobuf::Message& reply) {
  const auto end = std::chrono::steady_clock::now() + kHeadAwayMax;
  milliseconds pause = kAgainFirst;
  for (;;) {
    Failure failure;
    if (!api_) {
      auto connected = connect_();
      if (connected) {
        api_ = std::move(*connected);
      } else {
        failure = std::move(connected.error());
      }
    }
    if (api_) {
      auto called = api_->call(operation, request, reply);
      if (called) return {};
      failure = fail(std::move(called.error())).value();
    }
    if (!is_away(failure.error) || std::chrono::steady_clock::now() + pause > end)
      return tl::unexpected(std::move(failure));
    if (!std::exchange(has_told_, true)) told_(failure.error.message);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kAgainMax);
  }
}

}  // namespace volador::cli
