// The head's jobs: a thread with its own store beside the scheduler. It acts as a program of the cluster whose actors
// run the ranks of jobs (jobs/job_core.h).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "head/journal/journal.h"
#include "runtime/clock.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::head {
class HeadAccess;
}
namespace volador::operations {
class Registry;
}

namespace volador {

class RankGuard;

struct JobServerOptions {
  std::string cluster;  // Named in reports of jobs.
  std::string cluster_id;
  std::shared_ptr<RankGuard> guard = {};  // Gets the actors of all jobs. Null: none.
  std::filesystem::path files;            // Folder for the archives of code folders.
  size_t requests = 4096;                 // Queued for the thread.
  // The program that runs the ranks (jobs/command.h), which is the executable of this process; called once, on the
  // thread, when the first job starts.
  std::function<Result<protocol::Program>()> program;
};

// What the experiments of the cluster have to do with its jobs. Called on the thread of the jobs; must not block.
struct TrialHooks {
  std::function<void(const v1::Job& job)> on_job;              // A job with JobSpec.trial changed, durably.
  std::function<bool(const std::string& sha256)> needs_files;  // Whether the archive of a code folder is needed.
};

// Thread safe; requests return at once.
class JobServer final {
 public:
  // Serves when it returns; requests wait until the store has been read. Head and clock must outlive it.
  JobServer(std::unique_ptr<head::Journal> journal, head::HeadAccess& head, JobServerOptions options,
            const Clock& clock);
  // Calls stop().
  ~JobServer();

  // Drops queued requests and refuses later ones; running jobs go on. Call before the head stops. Idempotent.
  void stop();

  // URL of the dashboard, for reports of jobs.
  void set_page(std::string url);

  void set_trial_hooks(TrialHooks hooks);
  // Jobs/SubmitJob for a job with JobSpec.trial, which the operation refuses. A job whose `trial` another one has is
  // that job. `by`: its owner.
  void submit_trial(const security::Principal& by, v1::SubmitJobRequest request,
                    std::function<void(Result<v1::SubmitJobReply>)> done);

  // Registers the operations of Jobs; call withdraw("Jobs") before destroying this object.
  void serve_on(operations::Registry& registry);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador
