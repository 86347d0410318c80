// Errors of calls without a reply: same texts for callers in other processes and in the host's process.
#pragma once

#include <fmt/format.h>

#include <string>

#include "runtime/net/channel.h"
#include "runtime/quantities.h"

namespace volador::net {

inline Error arguments_too_large(const CallRequest& request) {
  return {ErrorCode::kInvalidArgument,
          fmt::format(
              "call to actor {}: its arguments have {} bytes, the limit of one call is {} bytes; send them in pieces",
              short_id(request.actor), request.body.size(), kFrameBytesMax)};
}
inline Error request_id_taken(const CallRequest& request) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("call to actor {}: request id {} belongs to a call that is not answered yet",
                      short_id(request.actor), request.request_id)};
}
inline Error too_many_wait(const CallRequest& request, const std::string& peer, size_t calls, size_t bytes,
                           size_t calls_max, size_t bytes_max) {
  return {ErrorCode::kUnavailable,
          fmt::format("{} ({}) {} for actor {} at {}; limit {}, {}: "
                      "wait for results before calling again",
                      counted(calls, "call"), counted(bytes, "byte"), calls == 1 ? "waits" : "wait",
                      short_id(request.actor), peer, counted(calls_max, "call"), counted(bytes_max, "byte"))};
}
inline Error cancelled_by_caller(bool sent) {
  return {ErrorCode::kCancelled, sent ? "the call was cancelled by its caller; it may have been executed"
                                      : "the call was cancelled by its caller before it was sent"};
}
inline Error timed_out(bool sent, const std::string& peer) {
  return {ErrorCode::kTimeout,
          sent ? fmt::format("no answer from {} within the call's timeout; it may have been executed", peer)
               : fmt::format("the call's timeout passed before it could be sent to {}", peer)};
}
inline Error given_back() {
  return {ErrorCode::kCancelled, "the call was given back to its caller, who asked for it: it was not executed"};
}
// Whether a call ended with given_back(): its caller repeats it without using a retry.
inline bool is_given_back(const Error& error) { return error == given_back(); }
inline Error not_sent(const std::string& peer, const std::string& why) {
  return {ErrorCode::kUnavailable, fmt::format("the call was not sent: connection to {}: {}", peer, why)};
}
inline Error lost_while_it_ran(const std::string& peer, const std::string& why) {
  return {ErrorCode::kUnknownOutcome,
          fmt::format(
              "connection to {} lost while the call ran: {}; it may have been executed: retry with the same request id",
              peer, why)};
}
inline Error closed_by_this_process(const std::string& peer) {
  return {ErrorCode::kCancelled, fmt::format("the connection to {} was closed by this process", peer)};
}
inline Error result_too_large(size_t bytes) {
  return {ErrorCode::kInvalidArgument,
          fmt::format(
              "the call was executed, but its result has {} bytes and one reply takes {} bytes: return it in pieces",
              bytes, kFrameBytesMax)};
}
inline Error dropped_without_answer() {
  return {ErrorCode::kUnknownOutcome, "the host dropped the call without an answer; it may have been executed"};
}

}  // namespace volador::net
