#include "jobs/job_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <utility>

#include "jobs/code_folder.h"
#include "jobs/environment/environment.h"
#include "runtime/control/cluster_api.h"
#include "runtime/files/scratch_folder.h"
#include "runtime/ids.h"
#include "runtime/quantities.h"
#include "runtime/random.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr size_t kPartBytes = 1 << 20;
constexpr int64_t kLargeBytes = 8 << 20;
constexpr milliseconds kPollFirst{20};
constexpr milliseconds kPollMax{500};

}  // namespace

std::string new_request_id() {
  SystemRandom random;
  return to_string(new_id<RequestId>(random));
}

Result<std::string> JobClient::send_code(const fs::path& folder, const std::string& environment,
                                         const std::function<void(int64_t files, int64_t bytes)>& on_send) {
  const auto parsed = parse_environment(environment);
  if (!parsed) return make_error(parsed.error());
  auto scratch = ScratchFolder::create("code");
  if (!scratch) return make_error(scratch.error());
  const fs::path archive = scratch->path() / "code";
  auto packed = pack_code(folder, archive, code_files_of(*parsed));
  if (!packed) return make_error(packed.error());
  v1::PutJobFilesRequest part;
  part.set_sha256(packed->sha256);
  part.set_size_bytes(packed->archive_bytes);
  auto stored = api_.call<v1::PutJobFilesReply>("Jobs/PutJobFiles", part);
  if (!stored) return make_error(stored.error());
  if (!stored->complete() && packed->archive_bytes > kLargeBytes && on_send)
    on_send(packed->files, packed->archive_bytes);
  std::ifstream in(archive, std::ios::binary);
  std::string piece(kPartBytes, '\0');
  while (!stored->complete()) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto got = static_cast<size_t>(in.gcount());
    if (got == 0) return make_error(ErrorCode::kUnavailable, "the packed code folder cannot be read");
    part.set_data(piece.data(), got);
    stored = api_.call<v1::PutJobFilesReply>("Jobs/PutJobFiles", part);
    if (!stored) return make_error(stored.error());
    part.set_offset(part.offset() + static_cast<int64_t>(got));
  }
  return packed->sha256;
}

Result<v1::SubmitJobReply> JobClient::submit(v1::SubmitJobRequest request) {
  if (request.request_id().empty()) request.set_request_id(new_request_id());
  return api_.call<v1::SubmitJobReply>("Jobs/SubmitJob", request);
}

Result<v1::Job> JobClient::get(const std::string& job) {
  v1::GetJobRequest request;
  request.set_job(job);
  return api_.call<v1::Job>("Jobs/GetJob", request);
}

Result<v1::Job> JobClient::stop(const std::string& job, bool now) {
  v1::StopJobRequest request;
  request.set_job(job);
  request.set_now(now);
  request.set_request_id(new_request_id());
  auto reply = api_.call<v1::StopJobReply>("Jobs/StopJob", request);
  if (!reply) return make_error(reply.error());
  return reply->job();
}

Result<v1::Job> JobClient::wait(const std::string& id, const std::function<bool(const v1::Job& job)>& on_state,
                                milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  milliseconds pause = kPollFirst;
  while (true) {
    auto job = get(id);
    if (!job && job.error().code != ErrorCode::kUnavailable && job.error().code != ErrorCode::kTimeout) return job;
    if (job) {
      const bool news = on_state && on_state(*job);
      if (has_ended(*job)) return job;
      pause = news ? kPollFirst : std::min(pause * 2, kPollMax);
    }
    if (timeout.count() > 0 && std::chrono::steady_clock::now() + pause > end) {
      return make_error(ErrorCode::kTimeout,
                        fmt::format("{} has not ended within {}; it goes on", id, format_duration(timeout)));
    }
    std::this_thread::sleep_for(pause);
  }
}

std::string new_unique_name() { return new_request_id().substr(0, 8); }

}  // namespace volador::jobs
