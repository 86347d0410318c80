#include "cli/command_channel.h"

#include <algorithm>

#include "jobs/job_client.h"
#include "runtime/control/cluster_api.h"

namespace volador::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstInputPause{20};
constexpr milliseconds kLongestInputPause{500};

}  // namespace

Result<void> CommandChannel::start(v1::StartCommandRequest request) {
  request.set_job(job_);
  request.set_rank(rank_);
  request.set_request_id(jobs::new_request_id());
  auto started = api_.call<v1::StartCommandReply>("Jobs/StartCommand", request);
  if (!started) return make_error(started.error());
  command_ = std::move(*started->mutable_command());
  return {};
}

Result<v1::ReadCommandReply> CommandChannel::read(milliseconds wait) {
  v1::ReadCommandRequest request;
  request.set_job(job_);
  request.set_rank(rank_);
  request.set_command(command_);
  request.set_wait_ms(wait.count());
  return api_.call<v1::ReadCommandReply>("Jobs/ReadCommand", request);
}

v1::WriteCommandRequest CommandChannel::write_request() const {
  v1::WriteCommandRequest request;
  request.set_job(job_);
  request.set_rank(rank_);
  request.set_command(command_);
  return request;
}

void CommandChannel::write(const v1::WriteCommandRequest& request) {
  static_cast<void>(api_.call<v1::WriteCommandReply>("Jobs/WriteCommand", request));
}

Result<void> CommandChannel::give(const std::string& bytes, bool end, const std::function<bool(milliseconds)>& pause) {
  v1::WriteCommandRequest request = write_request();
  request.set_input(bytes);
  request.set_end(end);
  for (milliseconds wait = kFirstInputPause;; wait = std::min(wait * 2, kLongestInputPause)) {
    const auto given = api_.call<v1::WriteCommandReply>("Jobs/WriteCommand", request);
    if (given || given.error().code == ErrorCode::kNotFound) return {};  // It has ended: its end is on the way.
    if (given.error().code != ErrorCode::kUnavailable) return make_error(given.error());
    if (!pause(wait)) return {};
  }
}

void CommandChannel::signal(const std::string& name) {
  v1::WriteCommandRequest request = write_request();
  request.set_signal(name);
  write(request);
}

void CommandChannel::resize(int rows, int columns) {
  v1::WriteCommandRequest request = write_request();
  request.set_rows(rows);
  request.set_columns(columns);
  write(request);
}

void CommandChannel::close() {
  v1::WriteCommandRequest request = write_request();
  request.set_close(true);
  write(request);
}

}  // namespace volador::cli
