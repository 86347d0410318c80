#include "head/shell/head_access.h"

#include <fmt/format.h>

#include <algorithm>

#include "head/shell/audit_log.h"
#include "head/shell/core_runner.h"
#include "head/shell/log_lines.h"
#include "head/shell/log_parts.h"
#include "head/shell/log_rings.h"
#include "head/shell/run_file_reader.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/security/authority.h"
#include "runtime/security/keys.h"

namespace volador::head {
size_t tail_of(const v1::LogsRequest& request) {
  constexpr int kDefault = 100, kMax = 10'000;
  return static_cast<size_t>(request.tail() <= 0 ? kDefault : std::min<int>(request.tail(), kMax));
}

const DurationHistogram& HeadAccess::decision_times() const { return parts_.runner.decision_times(); }
void HeadAccess::watch(std::function<void(v1::Changes)> on_changes) { parts_.runner.watch(std::move(on_changes)); }
void HeadAccess::watch_logs(std::function<void(const protocol::LogLines&)> on_lines) {
  parts_.runner.watch_logs(std::move(on_lines));
}

void HeadAccess::record(AuditRequest asked, const Result<void>& outcome) {
  record_later(parts_.runner, parts_.audit, parts_.clock, std::move(asked), outcome);
}

void HeadAccess::actor_of(std::string id, const security::Principal& by, Done<std::string> done) {
  parts_.runner.ask([id = std::move(id), by, done = std::move(done)](const HeadCore& core, BootTime) {
    auto source = actor_log_source(core, id, by);
    if (!source) return done(make_error(source.error()));
    done(to_string(source->actor));
  });
}

bool HeadAccess::shows(ActorId actor, const security::Principal& by) const {
  return shows_lines(parts_.guard.get(), actor, by);
}

void HeadAccess::logs(const v1::LogsRequest& request, const security::Principal& by,
                      Done<std::vector<v1::LogLine>> done) {
  const size_t tail = tail_of(request);
  parts_.runner.ask([this, id = request.id(), node = request.node(), by, tail, done = std::move(done)](
                        const HeadCore& core, BootTime) {
    if (node.empty()) {
      auto source = actor_log_source(core, id, by);
      if (!source) return done(make_error(source.error()));
      std::vector<v1::LogLine> lines;
      for (KeptLine& line : parts_.logs.tail(source->writers, tail).value_or(std::vector<KeptLine>{}))
        lines.push_back(to_api(std::move(line)));
      return done(std::move(lines));
    }
    const auto session = core.lookups().node_session(node);
    if (!session) return done(make_error(session.error()));
    protocol::ReadLogs read;
    read.set_lines(static_cast<int32_t>(tail));
    read.set_hosts(true);
    read_shown_logs(parts_.runner, *session, std::move(read), by,
                    [this, node, done](Result<protocol::LogTails> answer) {
                      if (!answer) return done(make_error(answer.error()));
                      if (answer->error().code() == 0) return done(node_lines(*answer, node, parts_.logs));
                      done(make_error(error_code_from(int64_t{answer->error().code()}),
                                      fmt::format("node {}: {}", node, answer->error().message())));
                    });
  });
}

void HeadAccess::list_run_files(std::string experiment, std::string trial, Done<std::vector<RunFiles::Entry>> done) {
  head::list_run_files(parts_.runner, std::move(experiment), std::move(trial), std::move(done));
}

void HeadAccess::open_run_file(std::string experiment, std::string trial, std::string name, Done<RemoteFile> done) {
  head::open_run_file(parts_.runner, std::move(experiment), std::move(trial), std::move(name), std::move(done));
}

Result<security::Credentials> HeadAccess::issue_certificate(const std::vector<std::string>& names) const {
  return parts_.authority.issue_head(names, parts_.clock.wall());
}

Result<security::Credentials> HeadAccess::issue_program_certificate(const std::string& name) const {
  auto key = security::make_key_request(security::Role::kDriver, name);
  if (!key) return make_error(key.error());
  auto certificate = parts_.authority.sign(key->csr_pem, {.role = security::Role::kDriver,
                                                          .name = name,
                                                          .token_id = name,
                                                          .now = parts_.clock.wall(),
                                                          .valid_for = security::kValidHead});
  if (!certificate) return make_error(certificate.error());
  return security::Credentials{.certificate_pem = std::move(*certificate),
                               .key_pem = std::move(key->key_pem),
                               .authority_pem = parts_.authority.certificate_pem()};
}

}  // namespace volador::head
