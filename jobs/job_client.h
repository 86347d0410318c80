// What programs do with jobs through the API of a cluster: send code, submit, wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::jobs {

// Blocks. Errors as pack_code() and ClusterApi::call().
class JobClient {
 public:
  explicit JobClient(control::ClusterApi& api) : api_(api) {}

  // Packs the folder and sends it to the head, unless the head has the same already. Returns the hash for
  // JobSpec::files_sha256. `environment`: that of the job; its file must be in the folder. `on_send` is called before a
  // large archive is sent.
  Result<std::string> send_code(const std::filesystem::path& folder, const std::string& environment = {},
                                const std::function<void(int64_t files, int64_t bytes)>& on_send = {});
  // A request without an id gets a random one.
  Result<v1::SubmitJobReply> submit(v1::SubmitJobRequest request);
  Result<v1::Job> get(const std::string& job);
  Result<v1::Job> stop(const std::string& job, bool now);

  // Waits for the end of the job. Calls `on_state` with each state that it sees; it returns whether it had news, which
  // shortens the next pause, and may throw to end the wait. A head that does not answer is asked again, since it may be
  // restarting. kTimeout: not within `timeout` (0: no limit).
  Result<v1::Job> wait(const std::string& job, const std::function<bool(const v1::Job& job)>& on_state = {},
                       std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

 private:
  control::ClusterApi& api_;
};

// Whether the job is in its final state.
inline bool has_ended(const v1::Job& job) { return job.ended_ms() != 0; }
// An id for a request that changes something, so that the head does a repeated one only once.
std::string new_request_id();
// A short text for the name of a batch or of a set of alternatives.
std::string new_unique_name();

}  // namespace volador::jobs
