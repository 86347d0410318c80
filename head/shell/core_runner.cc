#include "head/shell/core_runner.h"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <unordered_map>

#include "head/shell/log_rings.h"
#include "runtime/log.h"
#include "runtime/protocol/batch.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/error_info.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;

constexpr auto kTick = 200ms;
constexpr size_t kWatchRows = 400;        // Rows at a time: about a millisecond.
constexpr size_t kWatchEventsMax = 2000;  // Events queued for the watcher; the oldest are dropped.

// They renew leases and show liveness but report no journaled state, so they need not wait for the journal.
bool needs_no_journal(const protocol::HeadToWorker& message) { return message.has_heartbeat_ack(); }
bool needs_no_journal(const protocol::HeadMessage& message) { return message.has_pong(); }

void write_events(const Actions& actions) {
  for (const Event& event : actions.events) {
    std::vector<log::Field> fields;
    for (const auto& [key, value] : event.fields) fields.emplace_back(key, value);
    log::write(event.level, "head", event.text, std::span<const log::Field>(fields));
  }
}

v1::Event to_api(const Event& event, WallTime now) {
  v1::Event out;
  out.set_wall_ns(now.time_since_epoch().count());
  out.set_level(event.level == log::Level::kError ? "error" : event.level == log::Level::kWarn ? "warn" : "info");
  out.set_text(event.text);
  for (const auto& [key, value] : event.fields) (*out.mutable_fields())[key] = value;
  out.set_why(event.why.to_json());
  out.set_kind(std::string(event.kind));
  return out;
}

void fill(protocol::Reply& reply, const Error& why) {
  reply.clear_actor();
  fill(*reply.mutable_error(), why);
}

// Returns the refusal of a request that would change state while the head is read-only; nullopt: the message may pass.
// Checkpoints have no user request that could be retried, so they wait in the backlog while there is room. A repeated
// request that was accepted before gets its reply from the journal; refusing it would orphan its actor.
std::optional<protocol::HeadMessage> refusal(const HeadCore& core, const protocol::ClientMessage& message,
                                             const JournalWriter& writer) {
  const std::string* request = nullptr;
  if (message.has_spawn()) request = &message.spawn().request_id();
  if (message.has_kill()) request = &message.kill().request_id();
  if (message.has_create_group()) request = &message.create_group().request_id();
  if (message.has_remove_group()) request = &message.remove_group().request_id();
  if (message.has_checkpoint()) request = &message.checkpoint().request_id();
  if (!request) return std::nullopt;
  const auto why = message.has_checkpoint() ? writer.full() : writer.read_only();
  if (!why || core.has_accepted(message)) return std::nullopt;
  protocol::HeadMessage answer;
  answer.mutable_reply()->set_request_id(*request);
  fill(*answer.mutable_reply(), *why);
  return answer;
}

// Turns acknowledgements of a change that the journal refused into errors.
void refuse_replies(Actions& actions, const Error& why) {
  for (ToClient& one : actions.to_clients) {
    if (one.message.has_reply() && !one.message.reply().has_error()) fill(*one.message.mutable_reply(), why);
  }
  for (ToNode& one : actions.to_nodes) {
    if (!one.message.has_relayed() || !one.message.relayed().message().has_reply()) continue;
    protocol::Reply& reply = *one.message.mutable_relayed()->mutable_message()->mutable_reply();
    if (!reply.has_error()) fill(reply, why);
  }
}

}  // namespace

struct CoreRunner::Impl : std::enable_shared_from_this<CoreRunner::Impl> {
  explicit Impl(const Parts& parts)
      : core(parts.core),
        writer(parts.writer),
        logs(parts.logs),
        clock(parts.clock),
        keep_experiment(parts.keep_experiment),
        loop(parts.loops, "head core", EventLoop::Thread::kShared, EventLoop::OnThrow::kAbort) {}

  // `durable` runs once the journal has stored or refused the changes.
  void apply_actions(Actions actions, std::function<void(Result<void>)> durable = nullptr);
  void release(Actions& actions);
  void send_unjournaled(Actions& actions);
  void tick();
  void note_changes(const Actions& actions);
  void hand_over_changes();
  void answer(uint64_t request, Result<protocol::WorkerMessage> answer);
  // Handles replies of nodes; returns false if the message is not a reply.
  bool answer_of_node(NodeSession session, protocol::WorkerMessage& message);
  void node_message(NodeSession session, const protocol::WorkerMessage& message);
  void client_message(ClientSession session, const protocol::ClientMessage& message);
  uint64_t add_question(uint64_t session, const char* of, NodeAnswered done);
  void fail_questions(uint64_t session, const char* of);
  void send(const Reader& reader, protocol::ReadRunFiles question);

  HeadCore& core;
  JournalWriter& writer;
  LogRings& logs;
  const Clock& clock;
  const std::function<void(ExperimentNews)> keep_experiment;
  std::atomic<uint64_t> next_session{1};
  DurationHistogram decision_times;
  // Confined to the loop.
  std::unordered_map<uint64_t, std::shared_ptr<NodeOutbox>> nodes;
  struct Client {
    std::shared_ptr<ClientOutbox> outbox;
    security::Principal by;
  };
  std::unordered_map<uint64_t, Client> clients;
  struct Question {  // Pending request to a node or driver; their session numbers are distinct.
    uint64_t session = 0;
    NodeAnswered done;
  };
  std::unordered_map<uint64_t, Question> questions;
  uint64_t next_question = 1;
  size_t waiting = 0;  // Steps whose messages wait for the journal.
  std::function<void(v1::Changes)> on_changes;
  std::function<void(const protocol::LogLines&)> on_log_lines;
  std::deque<v1::Event> events;  // For on_changes.
  bool hand_over_due = false;
  bool stopped = false;
  EventLoop loop;
};

void CoreRunner::Impl::send_unjournaled(Actions& actions) {
  std::erase_if(actions.to_nodes, [this](ToNode& one) {
    if (!needs_no_journal(one.message)) return false;
    if (auto found = nodes.find(static_cast<uint64_t>(one.session)); found != nodes.end())
      found->second->send(std::move(one.message));
    return true;
  });
  std::erase_if(actions.to_clients, [this](ToClient& one) {
    if (!needs_no_journal(one.message)) return false;
    if (auto found = clients.find(static_cast<uint64_t>(one.session)); found != clients.end())
      found->second.outbox->send(std::move(one.message));
    return true;
  });
}

void CoreRunner::Impl::release(Actions& actions) {
  for (ToNode& one : actions.to_nodes) {
    if (auto found = nodes.find(static_cast<uint64_t>(one.session)); found != nodes.end())
      found->second->send(std::move(one.message));
  }
  for (ToClient& one : actions.to_clients) {
    if (auto found = clients.find(static_cast<uint64_t>(one.session)); found != clients.end())
      found->second.outbox->send(std::move(one.message));
  }
  const Error why{ErrorCode::kUnavailable, "the head ended this connection; connect again"};
  for (NodeSession session : actions.close_nodes) {
    if (auto found = nodes.find(static_cast<uint64_t>(session)); found != nodes.end()) found->second->close(why);
  }
  for (ClientSession session : actions.close_clients) {
    if (auto found = clients.find(static_cast<uint64_t>(session)); found != clients.end())
      found->second.outbox->close(why);
  }
}

void CoreRunner::Impl::apply_actions(Actions actions, std::function<void(Result<void>)> durable) {
  write_events(actions);
  note_changes(actions);
  for (ExperimentNews& news : std::exchange(actions.experiments, {})) {
    if (keep_experiment) keep_experiment(std::move(news));
  }
  if (waiting == 0 && actions.journal.empty()) {
    release(actions);
    if (durable) durable({});
    return;
  }
  send_unjournaled(actions);
  const bool nothing_left = actions.journal.empty() && actions.to_nodes.empty() && actions.to_clients.empty() &&
                            actions.close_nodes.empty() && actions.close_clients.empty();
  if (nothing_left && !durable) return;
  ++waiting;
  auto mutations = std::exchange(actions.journal, {});
  auto held = std::make_shared<Actions>(std::move(actions));
  const auto finish = [self = weak_from_this(), held, durable = std::move(durable)](const Result<void>& stored) {
    auto alive = self.lock();
    if (!alive) return;
    alive->loop.post([self, held, durable, stored] {
      auto here = self.lock();
      if (!here) return;
      --here->waiting;
      if (!stored) refuse_replies(*held, stored.error());
      here->release(*held);
      if (durable) durable(stored);
    });
  };
  writer.submit(
      std::move(mutations), [finish] { finish({}); }, [finish](const Error& why) { finish(make_error(why)); });
}

void CoreRunner::Impl::note_changes(const Actions& actions) {
  if (!on_changes) return;
  for (const Event& event : actions.events) {
    if (event.level != log::Level::kDebug) events.push_back(to_api(event, clock.wall()));
  }
  while (events.size() > kWatchEventsMax) events.pop_front();
  if (hand_over_due || (events.empty() && !core.change_feed().any(clock.now()))) return;
  hand_over_due = true;
  loop.post_after(kWatchEvery, [self = weak_from_this()] {
    if (auto here = self.lock()) here->hand_over_changes();
  });
}

void CoreRunner::Impl::hand_over_changes() {
  hand_over_due = false;
  if (stopped) return;
  v1::Changes changes = core.change_feed().take(clock.now(), kWatchRows);
  for (v1::Event& event : events) *changes.add_events() = std::move(event);
  events.clear();
  on_changes(std::move(changes));
  note_changes({});
}

void CoreRunner::Impl::tick() {
  if (stopped) return;
  apply_actions(core.on_tick(clock.now()));
  loop.post_after(kTick, [self = weak_from_this()] {
    if (auto here = self.lock()) here->tick();
  });
}

bool CoreRunner::Impl::answer_of_node(NodeSession session, protocol::WorkerMessage& message) {
  uint64_t request = 0;
  if (message.has_log_tails())
    request = message.log_tails().request();
  else if (message.has_objects())
    request = message.objects().request();
  else if (message.has_run_files())
    request = message.run_files().request();
  else if (message.has_log_part())
    request = message.log_part().request();
  else if (message.has_stacks())
    request = message.stacks().request();
  else if (message.has_timeline())
    request = message.timeline().request();
  else if (message.has_processes())
    request = message.processes().request();
  else
    return false;
  const auto question = questions.find(request);
  if (question != questions.end() && question->second.session == static_cast<uint64_t>(session))
    answer(request, std::move(message));
  return true;
}

void CoreRunner::Impl::node_message(NodeSession session, const protocol::WorkerMessage& message) {
  const auto found = nodes.find(static_cast<uint64_t>(session));
  if (found == nodes.end()) return;
  if (message.has_log()) {
    logs.add(message.log());
    if (on_log_lines) on_log_lines(message.log());
  }
  if (message.has_relay()) {
    if (auto answer = refusal(core, message.relay().message(), writer)) {
      protocol::HeadToWorker relayed;
      relayed.mutable_relayed()->set_host_id(message.relay().host_id());
      *relayed.mutable_relayed()->mutable_message() = std::move(*answer);
      found->second->send(std::move(relayed));
      return;
    }
  }
  apply_actions(core.on_node_message(clock.now(), session, message));
}

void CoreRunner::Impl::answer(uint64_t request, Result<protocol::WorkerMessage> answer) {
  const auto found = questions.find(request);
  if (found == questions.end()) return;
  const auto done = std::move(found->second.done);
  questions.erase(found);
  done(std::move(answer));
}

uint64_t CoreRunner::Impl::add_question(uint64_t session, const char* of, NodeAnswered done) {
  const uint64_t number = next_question++;
  questions[number] = {.session = session, .done = std::move(done)};
  loop.post_after(kNodePatience, [self = weak_from_this(), number, of] {
    auto here = self.lock();
    if (!here) return;
    here->answer(number, make_error(ErrorCode::kTimeout,
                                    fmt::format("the {} did not answer within {} s", of, kNodePatience.count())));
  });
  return number;
}

void CoreRunner::Impl::fail_questions(uint64_t session, const char* of) {
  std::vector<uint64_t> lost;
  for (const auto& [request, asked] : questions) {
    if (asked.session == session) lost.push_back(request);
  }
  for (const uint64_t request : lost) {
    answer(
        request,
        make_error(ErrorCode::kUnavailable,
                   fmt::format("the connection to the {} was lost before it answered; try again when it is back", of)));
  }
}

void CoreRunner::Impl::send(const Reader& reader, protocol::ReadRunFiles question) {
  if (const auto* node = std::get_if<NodeSession>(&reader)) {
    const auto found = nodes.find(static_cast<uint64_t>(*node));
    if (found == nodes.end()) return;
    protocol::HeadToWorker message;
    *message.mutable_read_run_files() = std::move(question);
    return found->second->send(std::move(message));
  }
  const auto found = clients.find(static_cast<uint64_t>(std::get<ClientSession>(reader)));
  if (found == clients.end()) return;
  protocol::HeadMessage message;
  *message.mutable_read_run_files() = std::move(question);
  found->second.outbox->send(std::move(message));
}

void CoreRunner::Impl::client_message(ClientSession session, const protocol::ClientMessage& message) {
  const auto found = clients.find(static_cast<uint64_t>(session));
  if (found == clients.end()) return;
  Actions actions;  // Actions of the whole batch: one journal step.
  const bool sound = for_each_in_batch(message, [&](const protocol::ClientMessage& one) {
    if (one.has_run_files()) {
      const auto question = questions.find(one.run_files().request());
      if (question == questions.end() || question->second.session != static_cast<uint64_t>(session)) return;
      protocol::WorkerMessage as_of_node;
      *as_of_node.mutable_run_files() = one.run_files();
      return answer(question->first, std::move(as_of_node));
    }
    if (auto answer = refusal(core, one, writer)) {
      found->second.outbox->send(std::move(*answer));
    } else {
      actions.append(core.on_client_message(clock.now(), session, one, found->second.by));
    }
  });
  if (!sound) log::warn("head", "ignored a message that does not parse", {{"session", static_cast<uint64_t>(session)}});
  apply_actions(std::move(actions));
}

CoreRunner::CoreRunner(const Parts& parts) : impl_(std::make_shared<Impl>(parts)) {}

CoreRunner::~CoreRunner() { stop(); }

void CoreRunner::start() {
  post([impl = impl_.get()] {
    impl->apply_actions(impl->core.start(impl->clock.now()));
    impl->tick();
  });
}

void CoreRunner::stop() {
  impl_->loop.stop();
  if (std::exchange(impl_->stopped, true)) return;
  // The loop runs no more functions now.
  const Error why{ErrorCode::kUnavailable, "the head stops; connect again when it is back"};
  for (auto& [session, outbox] : impl_->nodes) outbox->close(why);
  for (auto& [session, client] : impl_->clients) client.outbox->close(why);
  impl_->nodes.clear();
  impl_->clients.clear();
}

void CoreRunner::post(std::function<void()> function) { impl_->loop.post(std::move(function)); }

NodeSession CoreRunner::open_node(std::shared_ptr<NodeOutbox> outbox) {
  const uint64_t session = impl_->next_session++;
  post([impl = impl_.get(), session, outbox = std::move(outbox)]() mutable {
    impl->nodes[session] = std::move(outbox);
  });
  return NodeSession{session};
}

void CoreRunner::on_node_message(NodeSession session, protocol::WorkerMessage message, std::function<void()> handled) {
  post([impl = impl_.get(), session, message = std::move(message), handled = std::move(handled),
        came = impl_->clock.now()]() mutable {
    if (impl->answer_of_node(session, message)) return handled();
    impl->node_message(session, message);
    impl->decision_times.add(impl->clock.now() - came);
    handled();
  });
}

const DurationHistogram& CoreRunner::decision_times() const { return impl_->decision_times; }

void CoreRunner::on_node_lost(NodeSession session) {
  post([impl = impl_.get(), session] {
    if (impl->nodes.erase(static_cast<uint64_t>(session)) == 0) return;
    impl->fail_questions(static_cast<uint64_t>(session), "node");
    impl->apply_actions(impl->core.on_node_lost(impl->clock.now(), session));
  });
}

ClientSession CoreRunner::open_client(std::shared_ptr<ClientOutbox> outbox, security::Principal by) {
  const uint64_t session = impl_->next_session++;
  post(
      [impl = impl_.get(), session, client = Impl::Client{.outbox = std::move(outbox), .by = std::move(by)}]() mutable {
        impl->clients[session] = std::move(client);
      });
  return ClientSession{session};
}

void CoreRunner::on_client_message(ClientSession session, protocol::ClientMessage message,
                                   std::function<void()> handled) {
  post([impl = impl_.get(), session, message = std::move(message), handled = std::move(handled),
        came = impl_->clock.now()] {
    impl->client_message(session, message);
    impl->decision_times.add(impl->clock.now() - came);
    handled();
  });
}

void CoreRunner::on_experiment_kept(DriverId driver, std::string experiment, uint64_t number) {
  post([impl = impl_.get(), driver, experiment = std::move(experiment), number] {
    impl->apply_actions(impl->core.on_experiment_kept(impl->clock.now(), driver, experiment, number));
  });
}

void CoreRunner::say_stopped(protocol::ClusterStopped stopped) {
  post([impl = impl_.get(), stopped = std::move(stopped)] {
    protocol::HeadMessage message;
    *message.mutable_stopped() = stopped;
    for (auto& [session, client] : impl->clients) client.outbox->send(message);
  });
}

void CoreRunner::on_client_lost(ClientSession session) {
  post([impl = impl_.get(), session] {
    if (impl->clients.erase(static_cast<uint64_t>(session)) == 0) return;
    impl->fail_questions(static_cast<uint64_t>(session), "program");
    impl->apply_actions(impl->core.on_client_lost(impl->clock.now(), session));
  });
}

void CoreRunner::ask(std::function<void(const HeadCore&, BootTime)> question) {
  post([impl = impl_.get(), question = std::move(question)] { question(impl->core, impl->clock.now()); });
}

void CoreRunner::change(std::function<Result<Actions>(HeadCore&, BootTime)> step,
                        std::function<void(Result<void>)> done) {
  post([impl = impl_.get(), step = std::move(step), done = std::move(done)] {
    if (auto why = impl->writer.read_only()) return done(make_error(*why));
    auto actions = step(impl->core, impl->clock.now());
    if (!actions) return done(make_error(actions.error()));
    impl->apply_actions(std::move(*actions), done);
  });
}

void CoreRunner::tell(std::function<void(HeadCore&)> step) {
  post([impl = impl_.get(), step = std::move(step)] {
    step(impl->core);
    impl->apply_actions({});
  });
}

void CoreRunner::ask_node(NodeSession session, std::function<protocol::HeadToWorker(uint64_t)> question,
                          NodeAnswered done) {
  post([impl = impl_.get(), session, question = std::move(question), done = std::move(done)]() mutable {
    const auto node = impl->nodes.find(static_cast<uint64_t>(session));
    if (node == impl->nodes.end())
      return done(make_error(ErrorCode::kUnavailable, "the node is not connected; try again when it is back"));
    node->second->send(question(impl->add_question(static_cast<uint64_t>(session), "node", std::move(done))));
  });
}

void CoreRunner::read_run_files(Reader reader, protocol::ReadRunFiles question,
                                std::function<void(Result<protocol::RunFilesAnswer>)> done) {
  post([impl = impl_.get(), reader, question = std::move(question), done = std::move(done)]() mutable {
    const uint64_t session = std::visit([](auto one) { return static_cast<uint64_t>(one); }, reader);
    const char* const of = std::holds_alternative<NodeSession>(reader) ? "node" : "program";
    if (!impl->nodes.contains(session) && !impl->clients.contains(session)) {
      return done(make_error(ErrorCode::kUnavailable,
                             fmt::format("the {} is not connected any more; try again when it is back", of)));
    }
    question.set_request(
        impl->add_question(session, of, [done = std::move(done)](Result<protocol::WorkerMessage> answer) {
          if (!answer) return done(make_error(answer.error()));
          protocol::RunFilesAnswer& files = *answer->mutable_run_files();
          if (files.error().code() != 0)
            return done(make_error(error_code_from(int64_t{files.error().code()}), files.error().message()));
          done(std::move(files));
        }));
    impl->send(reader, std::move(question));
  });
}

void CoreRunner::end_run_file(Reader reader, uint64_t transfer) {
  post([impl = impl_.get(), reader, transfer] {
    protocol::ReadRunFiles question;
    question.set_transfer(transfer);
    question.set_end(true);
    impl->send(reader, std::move(question));
  });
}

void CoreRunner::watch(std::function<void(v1::Changes)> on_changes) {
  post([impl = impl_.get(), on_changes = std::move(on_changes)]() mutable {
    impl->on_changes = std::move(on_changes);
    impl->core.change_feed().watch();
    impl->note_changes({});
  });
}

void CoreRunner::watch_logs(std::function<void(const protocol::LogLines&)> on_lines) {
  post([impl = impl_.get(), on_lines = std::move(on_lines)]() mutable { impl->on_log_lines = std::move(on_lines); });
}

void CoreRunner::read_logs(NodeSession session, protocol::ReadLogs request,
                           std::function<void(Result<protocol::LogTails>)> done) {
  const auto question = [request = std::move(request)](uint64_t number) {
    protocol::HeadToWorker message;
    *message.mutable_read_logs() = request;
    message.mutable_read_logs()->set_request(number);
    return message;
  };
  ask_node(session, question, [done = std::move(done)](const Result<protocol::WorkerMessage>& answer) {
    done(answer ? Result<protocol::LogTails>(answer->log_tails()) : make_error(answer.error()));
  });
}

void CoreRunner::store(std::vector<Mutation> mutations, std::function<void(Result<void>)> done) {
  change(
      [mutations = std::move(mutations)](HeadCore&, BootTime) -> Result<Actions> {
        Actions actions;
        actions.journal = mutations;
        return actions;
      },
      std::move(done));
}

}  // namespace volador::head
