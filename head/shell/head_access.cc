#include "head/shell/head_access.h"

#include <fmt/format.h>

#include <algorithm>

#include "head/audit/audit_module.h"
#include "head/shell/core_runner.h"
#include "head/shell/log_lines.h"
#include "head/shell/log_parts.h"
#include "head/shell/log_rings.h"
#include "head/shell/object_lists.h"
#include "head/shell/process_views.h"
#include "head/shell/run_file_reader.h"
#include "runtime/log.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/security/authority.h"

namespace volador::head {
namespace {

constexpr int kAuditDefault = 1000;  // Entries.

}  // namespace

size_t tail_of(const v1::LogsRequest& request) {
  constexpr int kDefault = 100, kMax = 10'000;
  return static_cast<size_t>(request.tail() <= 0 ? kDefault : std::min<int>(request.tail(), kMax));
}

v1::Token to_api(const protocol::TokenRecord& record) {
  v1::Token token;
  token.set_id(record.token_id());
  token.set_role(record.role());
  token.set_created_wall_ns(record.created_wall_ns());
  token.set_expires_wall_ns(record.expires_wall_ns());
  token.set_revoked(record.revoked());
  token.set_note(record.note());
  return token;
}

const DurationHistogram& HeadAccess::decision_times() const { return parts_.runner.decision_times(); }
void HeadAccess::watch(std::function<void(v1::Changes)> on_changes) { parts_.runner.watch(std::move(on_changes)); }
void HeadAccess::watch_logs(std::function<void(const protocol::LogLines&)> on_lines) { parts_.runner.watch_logs(std::move(on_lines)); }

void HeadAccess::explain(std::string id, Done<v1::ExplainReply> done) {
  parts_.runner.ask([id = std::move(id), done = std::move(done)](const HeadCore& core, BootTime now) { done(core.explainer().explain(now, id)); });
}

void HeadAccess::actor_of(std::string id, Done<std::string> done) {
  parts_.runner.ask([id = std::move(id), done = std::move(done)](const HeadCore& core, BootTime) {
    auto source = actor_log_source(core, id);
    if (!source) return done(make_error(source.error()));
    done(to_string(source->actor));
  });
}

void HeadAccess::logs(const v1::LogsRequest& request, Done<std::vector<v1::LogLine>> done) {
  const size_t tail = tail_of(request);
  parts_.runner.ask([this, id = request.id(), node = request.node(), tail, done = std::move(done)](const HeadCore& core, BootTime) {
    if (node.empty()) {
      auto source = actor_log_source(core, id);
      if (!source) return done(make_error(source.error()));
      std::vector<v1::LogLine> lines;
      for (KeptLine& line : parts_.logs.tail(source->writers, tail).value_or(std::vector<KeptLine>{})) lines.push_back(to_api(std::move(line)));
      return done(std::move(lines));
    }
    const auto session = core.lookups().node_session(node);
    if (!session) return done(make_error(session.error()));
    protocol::ReadLogs read;
    read.set_lines(static_cast<int32_t>(tail));
    read.set_hosts(true);
    parts_.runner.read_logs(*session, std::move(read), [this, node, done](Result<protocol::LogTails> answer) {
      if (!answer) return done(make_error(answer.error()));
      if (answer->error().code() == 0) return done(node_lines(*answer, node, parts_.logs));
      done(make_error(error_code_from(int64_t{answer->error().code()}), fmt::format("node {}: {}", node, answer->error().message())));
    });
  });
}

void HeadAccess::read_log(v1::ReadLogRequest request, Done<v1::ReadLogReply> done) { head::read_log(parts_.runner, std::move(request), std::move(done)); }

void HeadAccess::stack(std::string id, Done<v1::StackReply> done) { read_stack(parts_.runner, std::move(id), std::move(done)); }

void HeadAccess::timeline(v1::TimelineRequest request, Done<v1::TimelineReply> done) { read_timeline(parts_.runner, std::move(request), std::move(done)); }

void HeadAccess::processes(std::string node, Done<v1::NodeProcesses> done) { read_processes(parts_.runner, std::move(node), std::move(done)); }

void HeadAccess::objects(int limit, Done<v1::ListObjectsReply> done) {
  const auto reply = std::make_shared<v1::ListObjectsReply>();
  list_objects(parts_.runner, limit, reply.get(), [reply, done = std::move(done)](const Result<void>& answered) {
    if (!answered) return done(make_error(answered.error()));
    done(std::move(*reply));
  });
}

void HeadAccess::record(const AuditRequest& asked, const Result<void>& outcome) const {
  parts_.audit.record(parts_.clock.wall().time_since_epoch().count(), asked, outcome);
}

// Lets `step` change the core, durably, and fill the reply.
template <class Reply>
void HeadAccess::change(AuditRequest asked, std::function<Result<void>(HeadCore& core, Reply& reply)> step, Done<Reply> done) {
  const auto reply = std::make_shared<Reply>();
  parts_.runner.change(
      [this, asked = std::move(asked), step = std::move(step), reply](HeadCore& core, BootTime now) {
        return core.act(now, [&] {
          const Result<void> outcome = step(core, *reply);
          record(asked, outcome);
          return outcome;
        });
      },
      [reply, done = std::move(done)](const Result<void>& changed) {
        if (!changed) return done(make_error(changed.error()));
        done(std::move(*reply));
      });
}

void HeadAccess::drain(std::string node, bool undo, std::string by, Done<void> done) {
  const AuditRequest asked{.by = by, .action = undo ? "undrain" : "drain", .object = node};
  change<v1::DrainReply>(
      asked,
      [node, undo, by](HeadCore& core, v1::DrainReply&) { return core.nodes().drain(node, undo, by); },
      [done = std::move(done)](const Result<v1::DrainReply>& drained) { done(drained ? Result<void>() : make_error(drained.error())); });
}

void HeadAccess::kill(v1::KillRequest request, std::string by, Done<v1::KillReply> done) {
  const AuditRequest asked{.by = by, .action = "kill", .object = request.actor()};
  change<v1::KillReply>(
      asked,
      [request = std::move(request), by = std::move(by)](HeadCore& core, v1::KillReply& reply) -> Result<void> {
        const auto killed = core.actor_requests().kill(request.actor(), request.restart(), by);
        if (!killed) return make_error(killed.error());
        reply.set_actor(to_string(killed->actor));
        reply.set_display(killed->display);
        reply.set_restarts(killed->restarts);
        return {};
      },
      std::move(done));
}

void HeadAccess::control_experiment(v1::ControlExperimentRequest request, std::string by, Done<v1::ControlExperimentReply> done) {
  const std::string trial = request.trial().empty() ? "" : "/" + request.trial();
  const AuditRequest asked{.by = by, .action = request.act(), .object = request.experiment() + trial};
  change<v1::ControlExperimentReply>(
      asked,
      [request = std::move(request), by = std::move(by)](HeadCore& core, v1::ControlExperimentReply& reply) { return core.experiments().control(request, reply, by); },
      std::move(done));
}

void HeadAccess::annotate_experiment(v1::AnnotateExperimentRequest request, std::string by, Done<v1::AnnotateExperimentReply> done) {
  const AuditRequest asked{.by = by, .action = "annotate", .object = request.experiment()};
  change<v1::AnnotateExperimentReply>(
      asked,
      [request = std::move(request), by = std::move(by)](HeadCore& core, v1::AnnotateExperimentReply& reply) { return core.experiments().annotate(request, reply, by); },
      std::move(done));
}

void HeadAccess::list_run_files(std::string experiment, std::string trial, Done<std::vector<RunFiles::Entry>> done) {
  head::list_run_files(parts_.runner, std::move(experiment), std::move(trial), std::move(done));
}

void HeadAccess::open_run_file(std::string experiment, std::string trial, std::string name, Done<RemoteFile> done) {
  head::open_run_file(parts_.runner, std::move(experiment), std::move(trial), std::move(name), std::move(done));
}

std::vector<v1::Token> HeadAccess::list_tokens() const {
  std::vector<v1::Token> tokens;
  for (const auto& record : parts_.gate.list_tokens()) tokens.push_back(to_api(record));
  return tokens;
}

void HeadAccess::note(AuditRequest asked, const Result<void>& outcome) const {
  parts_.runner.change(
      [this, asked = std::move(asked), outcome](HeadCore& core, BootTime now) {
        return core.act(now, [&] {
          record(asked, outcome);
          return Result<void>();
        });
      },
      [](const Result<void>&) {});
}

void HeadAccess::list_audit(v1::ListRequest request, Done<v1::ListAuditReply> done) {
  parts_.runner.ask([this, request = std::move(request), done = std::move(done)](const HeadCore&, BootTime) {
    const int limit = request.limit() <= 0 ? kAuditDefault : request.limit();
    v1::ListAuditReply reply;
    int64_t total = 0;
    parts_.audit.visit([&](const AuditModule::Entry& entry) {
      const protocol::AuditRecord& record = entry.record;
      const std::string outcome(record.code() == 0 ? "done" : to_string(error_code_from(int64_t{record.code()})));
      const auto has = [&](const std::string& text) { return text.find(request.filter()) != std::string::npos; };
      if (!has(record.by()) && !has(record.action()) && !has(record.object()) && !has(outcome)) return true;
      ++total;
      if (reply.entries_size() >= limit) return true;
      v1::AuditEntry& row = *reply.add_entries();
      row.set_number(entry.number);
      row.set_wall_ns(record.wall_ns());
      row.set_by(record.by());
      row.set_action(record.action());
      row.set_object(record.object());
      row.set_outcome(outcome);
      row.set_message(record.message());
      return true;
    });
    reply.set_total(total);
    done(std::move(reply));
  });
}

void HeadAccess::create_token(const std::string& role, std::chrono::milliseconds valid_for, const std::string& note_of_it, const std::string& by,
                              Done<v1::CreateTokenReply> done) {
  const auto parsed = security::parse_token_role(role);
  if (!parsed) return done(make_error(ErrorCode::kInvalidArgument, fmt::format("role \"{}\": expected join, driver, viewer or operator", role)));
  auto created = parts_.gate.create_token(parts_.authority.fingerprint(), *parsed, valid_for, note_of_it);
  if (!created) {
    note({.by = by, .action = "create_token", .object = role}, make_error(created.error()));
    return done(make_error(created.error()));
  }
  parts_.runner.store(std::move(created->journal), [this, done = std::move(done), by, token = created->token, record = created->record](const Result<void>& stored) {
    note({.by = by, .action = "create_token", .object = record.token_id() + " " + record.role()}, stored);
    if (!stored) return done(make_error(stored.error()));
    log::info("head", "token created", {{"token", record.token_id()}, {"role", record.role()}, {"note", record.note()}});
    v1::CreateTokenReply made;
    *made.mutable_token() = to_api(record);
    made.set_text(security::token_text(token).reveal());
    done(std::move(made));
  });
}

void HeadAccess::revoke_token(const std::string& id, const std::string& by, Done<void> done) {
  auto revoked = parts_.gate.revoke_token(id);
  if (!revoked) {
    note({.by = by, .action = "revoke_token", .object = id}, make_error(revoked.error()));
    return done(make_error(revoked.error()));
  }
  parts_.runner.store(std::move(revoked->journal), [this, done = std::move(done), by, revoked_id = revoked->id](const Result<void>& stored) {
    note({.by = by, .action = "revoke_token", .object = revoked_id}, stored);
    log::info("head", "token revoked", {{"token", revoked_id}});
    done(stored);
    parts_.on_revoked(revoked_id);
  });
}

Result<security::Credentials> HeadAccess::issue_certificate(const std::vector<std::string>& names) const {
  return parts_.authority.issue_head(names, parts_.clock.wall());
}

}  // namespace volador::head
