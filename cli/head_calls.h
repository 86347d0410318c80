// Calls from the processes of a job to the head of its cluster, which may be away for a while.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "cli/outcome.h"

namespace google::protobuf {
class Message;
}
namespace volador::control {
class ClusterApi;
}

namespace volador::cli {

inline constexpr std::chrono::milliseconds kHeadAwayMax{600'000};

// One connection, made at the first call and again after an error. For one thread at a time.
class HeadCalls {
 public:
  using Connect = std::function<tl::expected<std::unique_ptr<control::ClusterApi>, Failure>()>;
  // told: is called once with the reason, when the head does not answer.
  HeadCalls(Connect connect, std::function<void(const std::string& why)> told);
  ~HeadCalls();
  HeadCalls(const HeadCalls&) = delete;
  HeadCalls& operator=(const HeadCalls&) = delete;

  // Calls an operation that may be repeated, until the head answers, for at most kHeadAwayMax. Errors as
  // ClusterApi::call().
  [[nodiscard]] tl::expected<void, Failure> call(const char* operation, const google::protobuf::Message& request,
                                                 google::protobuf::Message& reply);

 private:
  Connect connect_;
  std::function<void(const std::string&)> told_;
  std::unique_ptr<control::ClusterApi> api_;
  bool has_told_ = false;
};

}  // namespace volador::cli
