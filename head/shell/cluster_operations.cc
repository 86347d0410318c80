#include "head/shell/cluster_operations.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "head/shell/audit_log.h"
#include "head/shell/authorizer.h"
#include "head/shell/core_runner.h"
#include "head/shell/log_parts.h"
#include "head/shell/object_lists.h"
#include "head/shell/process_views.h"
#include "runtime/log.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/security/authority.h"

namespace volador::head {
namespace {

constexpr int kAuditDefault = 1000;  // Entries.

template <class T>
using Done = operations::Registry::Done<T>;
using security::Principal;

v1::Token to_api(const protocol::TokenRecord& record) {
  v1::Token token;
  token.set_id(record.token_id());
  token.set_role(record.role());
  token.set_created_wall_ns(record.created_wall_ns());
  token.set_expires_wall_ns(record.expires_wall_ns());
  token.set_revoked(record.revoked());
  token.set_note(record.user().empty() ? record.note() : fmt::format("{}: {}", record.user(), record.note()));
  return token;
}

v1::ListAuditReply list_audit(const AuditModule& audit, const v1::ListRequest& request) {
  const int limit = request.limit() <= 0 ? kAuditDefault : request.limit();
  v1::ListAuditReply reply;
  int64_t total = 0;
  audit.visit([&](const AuditModule::Entry& entry) {
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
  return reply;
}

// Shared by the handlers.
class Operations : public std::enable_shared_from_this<Operations> {
 public:
  Operations(operations::Registry& registry, ClusterOperations parts) : registry_(registry), parts_(std::move(parts)) {}

  void serve_lists();
  void serve_questions();
  void serve_changes();
  void serve_tokens();

 private:
  // Registers an operation that reads the core's state: question(core, now, by, request) returns the reply or an error.
  template <class Request, class Reply, class Question>
  void read(std::string_view name, Question question) {
    registry_.serve<Request, Reply>(
        name, [self = shared_from_this(), question](const Principal& by, const Request& request, Done<Reply> done) {
          self->parts_.runner.ask([question, by, request, done = std::move(done)](const HeadCore& core, BootTime now) {
            done(question(core, now, by, request));
          });
        });
  }
  // Registers a list built in parts: add(core, now, request, cursor, reply) returns whether more parts follow. The core's
  // loop handles other events between the parts.
  template <class Request, class Reply, class Cursor, class Add>
  void read_in_parts(std::string_view name, Add add) {
    struct Listing {
      Request request;
      Done<Reply> done;
      Cursor cursor{};
      Reply reply{};
    };
    registry_.serve<Request, Reply>(
        name, [self = shared_from_this(), add](const Principal&, const Request& request, Done<Reply> done) {
          self->next_part(std::make_shared<Listing>(Listing{.request = request, .done = std::move(done)}), add);
        });
  }
  template <class Listing, class Add>
  void next_part(std::shared_ptr<Listing> listing, Add add) {
    parts_.runner.ask(
        [self = shared_from_this(), listing = std::move(listing), add](const HeadCore& core, BootTime now) {
          const Result<bool> more = add(core, now, listing->request, listing->cursor, listing->reply);
          if (!more) return listing->done(make_error(more.error()));
          if (*more) return self->next_part(listing, add);
          listing->done(std::move(listing->reply));
        });
  }
  // Registers an operation answered by nodes: ask(runner, by, request, done).
  template <class Request, class Reply, class Ask>
  void ask(std::string_view name, Ask ask_nodes) {
    registry_.serve<Request, Reply>(
        name, [self = shared_from_this(), ask_nodes](const Principal& by, const Request& request, Done<Reply> done) {
          ask_nodes(self->parts_.runner, by, request, std::move(done));
        });
  }
  struct Audited {
    std::string action, object;
  };
  // Registers an operation that durably changes the core: step(core, principal, request, reply). The audit log gets what
  // describe(request, reply) returns; the reply of a failed step is empty.
  template <class Request, class Reply, class Describe, class Step>
  void change(std::string_view name, Describe describe, Step step) {
    registry_.serve<Request, Reply>(name, [self = shared_from_this(), describe, step](
                                              const Principal& by, const Request& request, Done<Reply> done) {
      const auto reply = std::make_shared<Reply>();
      self->parts_.runner.change(
          [self, describe, step, by, request, reply](HeadCore& core, BootTime now) {
            return core.act(now, [&] {
              const Result<void> outcome = step(core, by, request, *reply);
              Audited audited = describe(request, outcome ? *reply : Reply());
              self->record(
                  {.by = by.token_id, .action = std::move(audited.action), .object = std::move(audited.object)},
                  outcome);
              return outcome;
            });
          },
          [reply, done = std::move(done)](const Result<void>& changed) {
            if (!changed) return done(make_error(changed.error()));
            done(std::move(*reply));
          });
    });
  }

  // Adds the outcome of a request to the audit log; on the loop, within an event of the core.
  void record(const AuditRequest& asked, const Result<void>& outcome) const {
    parts_.audit.record(parts_.clock.wall().time_since_epoch().count(), asked, outcome);
  }
  // Same in a separate event, for a request outside the core.
  void record_later(AuditRequest asked, const Result<void>& outcome) {
    head::record_later(parts_.runner, parts_.audit, parts_.clock, std::move(asked), outcome);
  }
  void create_token(const Principal& by, const v1::CreateTokenRequest& request, Done<v1::CreateTokenReply> done);
  void revoke_token(const Principal& by, const v1::RevokeTokenRequest& request, Done<v1::RevokeTokenReply> done);

  operations::Registry& registry_;
  const ClusterOperations parts_;
};

void Operations::serve_lists() {
  read<v1::StatusRequest, v1::StatusReply>(
      "Cluster/Status",
      [self = shared_from_this()](const HeadCore& core, BootTime now, const auto&,
                                  const auto&) -> Result<v1::StatusReply> {
        v1::StatusReply reply = core.lists().status(now);
        reply.set_address(self->parts_.address());
        reply.set_uptime_ms(std::chrono::duration_cast<std::chrono::milliseconds>(now - self->parts_.started).count());
        return reply;
      });
  read<v1::ListRequest, v1::ListNodesReply>("Cluster/ListNodes",
                                            [](const HeadCore& core, BootTime now, const auto&, const auto& request) {
                                              return core.lists().nodes(now, request);
                                            });
  read_in_parts<v1::ListRequest, v1::ListActorsReply, Lists::ActorsCursor>(
      "Cluster/ListActors", [](const HeadCore& core, BootTime now, const auto& request, auto& cursor, auto& reply) {
        return core.lists().add_actors(now, request, cursor, reply);
      });
  read<v1::ListRequest, v1::ListGroupsReply>(
      "Cluster/ListGroups",
      [](const HeadCore& core, BootTime, const auto&, const auto& request) { return core.lists().groups(request); });
  read_in_parts<v1::ListRequest, v1::ListQueueReply, Lists::QueueCursor>(
      "Cluster/ListQueue", [](const HeadCore& core, BootTime now, const auto& request, auto& cursor, auto& reply) {
        return core.lists().add_queue(now, request, cursor, reply);
      });
  read_in_parts<v1::ListRequest, v1::ListTrialsReply, Lists::TrialsCursor>(
      "Cluster/ListTrials", [](const HeadCore& core, BootTime now, const auto& request, auto& cursor, auto& reply) {
        return core.lists().add_trials(now, request, cursor, reply);
      });
  read<v1::ExplainRequest, v1::ExplainReply>(
      "Cluster/Explain",
      [](const HeadCore& core, BootTime now, const auto& by, const auto& request) -> Result<v1::ExplainReply> {
        VOLADOR_TRY(core.lookups().check_shown(request.id(), by));
        return core.explainer().explain(now, request.id());
      });
  read<v1::ListRequest, v1::ListAuditReply>(
      "Cluster/ListAudit", [self = shared_from_this()](const HeadCore&, BootTime, const auto&, const auto& request) {
        return list_audit(self->parts_.audit, request);
      });
}

void Operations::serve_questions() {
  ask<v1::ListRequest, v1::ListObjectsReply>(
      "Cluster/ListObjects", [](CoreRunner& runner, const auto&, const auto& request, Done<v1::ListObjectsReply> done) {
        const auto reply = std::make_shared<v1::ListObjectsReply>();
        list_objects(runner, request.limit(), reply.get(),
                     [reply, done = std::move(done)](const Result<void>& answered) {
                       if (!answered) return done(make_error(answered.error()));
                       done(std::move(*reply));
                     });
      });
  ask<v1::StackRequest, v1::StackReply>(
      "Cluster/Stack", [](CoreRunner& runner, const auto& by, const auto& request, Done<v1::StackReply> done) {
        read_stack(runner, request.id(), by, std::move(done));
      });
  ask<v1::ListRequest, v1::NodeProcesses>(
      "Cluster/ListProcesses", [](CoreRunner& runner, const auto&, const auto& request, Done<v1::NodeProcesses> done) {
        read_processes(runner, request.filter(), std::move(done));
      });
  ask<v1::TimelineRequest, v1::TimelineReply>(
      "Cluster/Timeline", [](CoreRunner& runner, const auto& by, const auto& request, Done<v1::TimelineReply> done) {
        read_timeline(runner, request, by, std::move(done));
      });
  ask<v1::ReadLogRequest, v1::ReadLogReply>(
      "Cluster/ReadLog", [](CoreRunner& runner, const auto& by, const auto& request, Done<v1::ReadLogReply> done) {
        read_log(runner, request, by, std::move(done));
      });
}

void Operations::serve_changes() {
  change<v1::DrainRequest, v1::DrainReply>(
      "Cluster/Drain",
      [](const auto& request, const auto&) {
        return Audited{.action = request.undo() ? "undrain" : "drain", .object = request.node()};
      },
      [](HeadCore& core, const Principal& by, const auto& request, auto&) {
        return core.nodes().drain(request.node(), request.undo(), by.token_id);
      });
  change<v1::KillRequest, v1::KillReply>(
      "Cluster/Kill",
      [](const auto& request, const auto&) { return Audited{.action = "kill", .object = request.actor()}; },
      [](HeadCore& core, const Principal& by, const auto& request, auto& reply) -> Result<void> {
        const auto killed = core.actor_requests().kill(request.actor(), request.restart(), by.token_id);
        if (!killed) return make_error(killed.error());
        reply.set_actor(to_string(killed->actor));
        reply.set_display(killed->display);
        reply.set_restarts(killed->restarts);
        return {};
      });
  change<v1::ControlExperimentRequest, v1::ControlExperimentReply>(
      "Cluster/ControlExperiment",
      [](const auto& request, const auto& reply) {
        const auto name_of = [](const auto& named) {
          return named.experiment() + (named.trial().empty() ? "" : "/" + named.trial());
        };
        return Audited{.action = request.act(),
                       .object = reply.experiment().empty() ? name_of(request) : name_of(reply)};
      },
      [](HeadCore& core, const Principal& by, const auto& request, auto& reply) {
        return core.experiments().control(request, reply, by.token_id);
      });
  change<v1::AnnotateExperimentRequest, v1::AnnotateExperimentReply>(
      "Cluster/AnnotateExperiment",
      [](const auto& request, const auto&) { return Audited{.action = "annotate", .object = request.experiment()}; },
      [](HeadCore& core, const Principal& by, const auto& request, auto& reply) {
        return core.experiments().annotate(request, reply, by.token_id);
      });
}

void Operations::create_token(const Principal& by, const v1::CreateTokenRequest& request,
                              Done<v1::CreateTokenReply> done) {
  const auto role = security::parse_token_role(request.role());
  if (!role)
    return done(make_error(ErrorCode::kInvalidArgument,
                           fmt::format("role \"{}\": expected join, driver, viewer or operator", request.role())));
  auto created = parts_.authorizer.create_token(parts_.authority.fingerprint(), *role,
                                                std::chrono::milliseconds(request.valid_for_ms()), request.note());
  if (!created) {
    record_later({.by = by.token_id, .action = "create_token", .object = request.role()}, make_error(created.error()));
    return done(make_error(created.error()));
  }
  parts_.runner.store(std::move(created->journal), [self = shared_from_this(), done = std::move(done), by = by.token_id,
                                                    token = created->token,
                                                    record = created->record](const Result<void>& stored) {
    self->record_later({.by = by, .action = "create_token", .object = record.token_id() + " " + record.role()}, stored);
    if (!stored) return done(make_error(stored.error()));
    log::info("head", "token created",
              {{"token", record.token_id()}, {"role", record.role()}, {"note", record.note()}});
    v1::CreateTokenReply made;
    *made.mutable_token() = to_api(record);
    made.set_text(security::token_text(token).reveal());
    done(std::move(made));
  });
}

void Operations::revoke_token(const Principal& by, const v1::RevokeTokenRequest& request,
                              Done<v1::RevokeTokenReply> done) {
  auto revoked = parts_.authorizer.revoke_token(request.id());
  if (!revoked) {
    record_later({.by = by.token_id, .action = "revoke_token", .object = request.id()}, make_error(revoked.error()));
    return done(make_error(revoked.error()));
  }
  parts_.runner.store(std::move(revoked->journal), [self = shared_from_this(), done = std::move(done), by = by.token_id,
                                                    id = revoked->id](const Result<void>& stored) {
    self->record_later({.by = by, .action = "revoke_token", .object = id}, stored);
    if (stored) {
      log::info("head", "token revoked", {{"token", id}});
      done(v1::RevokeTokenReply());
    } else {
      done(make_error(stored.error()));
    }
    self->parts_.on_revoked(id);  // This head refuses the token even if its journal does not have that.
  });
}

void Operations::serve_tokens() {
  registry_.serve<v1::CreateTokenRequest, v1::CreateTokenReply>(
      "Cluster/CreateToken",
      [self = shared_from_this()](const Principal& by, const auto& request, Done<v1::CreateTokenReply> done) {
        self->create_token(by, request, std::move(done));
      });
  registry_.serve<v1::RevokeTokenRequest, v1::RevokeTokenReply>(
      "Cluster/RevokeToken",
      [self = shared_from_this()](const Principal& by, const auto& request, Done<v1::RevokeTokenReply> done) {
        self->revoke_token(by, request, std::move(done));
      });
  registry_.serve<v1::ListTokensRequest, v1::ListTokensReply>(
      "Cluster/ListTokens", [self = shared_from_this()](const Principal&, const auto&, Done<v1::ListTokensReply> done) {
        v1::ListTokensReply reply;
        for (const auto& record : self->parts_.authorizer.list_tokens()) *reply.add_tokens() = to_api(record);
        done(std::move(reply));
      });
  registry_.serve<v1::LoginLinkRequest, v1::LoginLinkReply>(
      "Cluster/LoginLink", [self = shared_from_this()](const Principal&, const auto&, Done<v1::LoginLinkReply> done) {
        auto link = self->parts_.login_link();
        if (!link) return done(make_error(link.error()));
        v1::LoginLinkReply made;
        made.set_url(std::move(*link));
        done(std::move(made));
      });
}

}  // namespace

void serve_cluster(operations::Registry& registry, ClusterOperations parts) {
  const auto operations = std::make_shared<Operations>(registry, std::move(parts));
  operations->serve_lists();
  operations->serve_questions();
  operations->serve_changes();
  operations->serve_tokens();
}

}  // namespace volador::head
