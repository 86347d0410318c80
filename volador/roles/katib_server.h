// The head's resources in Katib's form: a thread with its own store beside the experiments and jobs that run them. It
// serves volador.v1.Katib, and Katib's metric store api.v1.beta1.DBManager for the trials.
//
//   katib_…   rows of KatibCore
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "head/journal/journal.h"
#include "runtime/clock.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"
#include "volador/roles/katib_services.h"

namespace volador::head {
class HeadAccess;
}
namespace volador::operations {
class Registry;
}

namespace volador {

class ExperimentServer;

struct KatibServerOptions {
  std::filesystem::path files;    // Folder with the archives of code folders, as that of the jobs.
  KatibServicesOptions services;  // The algorithms.
  // Submits a job with JobSpec::trial; see JobServer::submit_trial().
  std::function<void(const security::Principal& by, v1::SubmitJobRequest request,
                     std::function<void(Result<v1::SubmitJobReply>)> done)>
      submit;
  size_t requests = 16'384;  // Queued for the thread.
  size_t waits = 10'000;     // Requests that wait for a change.
};

// Thread safe; requests return at once.
class KatibServer final {
 public:
  // Serves when it returns; requests wait until the store has been read. Head, registry, whose operations of Jobs it
  // calls, experiments and clock must outlive it.
  KatibServer(std::unique_ptr<head::Journal> journal, head::HeadAccess& head, operations::Registry& registry,
              ExperimentServer& experiments, KatibServerOptions options, const Clock& clock);
  // Calls stop().
  ~KatibServer();

  // Drops queued and waiting requests and refuses later ones; trials and jobs go on. Call before the experiments and
  // jobs stop. Idempotent.
  void stop();

  // Registers the operations; call withdraw("Katib") and withdraw("DBManager") before destroying this object.
  void serve();

  // A job with JobSpec::trial has changed.
  void on_job(const v1::Job& job);
  // Whether a resource needs the archive of this code folder, by its hash in hex.
  bool needs_files(const std::string& sha256) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador
