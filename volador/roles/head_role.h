// A head with its dashboard; only this class knows both.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "head/shell/head_process.h"
#include "runtime/clock.h"
#include "runtime/outgoing/retry.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"
#include "runtime/security/own_certificate.h"

namespace volador {

// Configuration of the dashboard next to a head.
struct DashboardPlace {
  int port = 0;                                                   // 0: the previous port, else any free one.
  std::string public_url;                                         // URL of a reverse proxy; empty: none.
  std::optional<security::OwnCertificateFiles> certificate = {};  // Used for TLS, also on the loopback.
  std::optional<outgoing::Webhook> alerts = {};
  std::string alert_secret = {};
};

// Configuration of the experiments that run as jobs.
struct ExperimentPlace {
  // Where checkpoints go unless a configuration says it: an address of a storage or an absolute folder; empty: a folder
  // of the cluster on this machine.
  std::string checkpoint_storage;
  // Services of algorithms for resources in Katib's form; see katib_service_entries().
  std::string katib_suggestions = {};
  std::string katib_early_stopping = {};
};

class HeadRole {
 public:
  // Describes the program that runs the ranks of jobs (jobs/command.h).
  using JobProgram = std::function<Result<protocol::Program>()>;

  // Serves when it returns; without `dashboard` only a head; without `job_program` it takes neither jobs
  // nor experiments. On non-loopback addresses the dashboard uses TLS, with a
  // certificate of the cluster's own authority unless one is given. Errors as for HeadProcess::start and
  // Dashboard::start; nothing is left running then.
  [[nodiscard]] static Result<std::unique_ptr<HeadRole>> start(head::HeadOptions options,
                                                               const std::optional<DashboardPlace>& dashboard,
                                                               const Clock& clock, Random& random,
                                                               JobProgram job_program = {},
                                                               const ExperimentPlace& experiments = {});
  // Calls stop().
  ~HeadRole();

  head::HeadProcess& head();
  // Empty: no dashboard.
  std::string dashboard_url() const;
  // Creates a single-use sign-in link. kNotFound: no dashboard.
  Result<std::string> login_link();
  void stop();

 private:
  struct Impl;
  explicit HeadRole(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador
