#include "head/shell/process_views.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "head/kernel/core.h"
#include "head/shell/core_runner.h"
#include "runtime/machine.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
namespace {

constexpr int kEventsDefault = 4096;      // Per thread of a process: everything it stores.
constexpr int kEventsInAllMax = 200'000;  // Per reply; about 8 MB.

Result<v1::StackReply> stack_reply(const protocol::Stacks& stacks, const RunningActor& of) {
  if (stacks.error().code() != 0) {
    return make_error(error_code_from(int64_t{stacks.error().code()}),
                      fmt::format("actor {} on node {}: {}", of.display, of.node_name, stacks.error().message()));
  }
  v1::StackReply reply;
  reply.set_actor(to_string(of.actor));
  reply.set_display(of.display);
  reply.set_node(of.node_name);
  reply.set_pid(stacks.pid());
  for (const protocol::ThreadStack& thread : stacks.threads()) {
    v1::ThreadStack& row = *reply.add_threads();
    row.set_thread(thread.thread());
    row.set_name(thread.name());
    row.set_state(thread.state());
    row.set_runs(thread.runs());
    if (!thread.actor_id().empty()) row.set_actor(to_string(id_from_raw<ActorId>(thread.actor_id())));
    row.set_runs_ms(thread.runs_ns() / 1'000'000);
    *row.mutable_frames() = thread.frames();
    row.set_note(thread.note());
  }
  return reply;
}

void add_process(v1::TimelineReply& reply, const std::string& node, const protocol::HostTimeline& host, int& room) {
  v1::TimelineProcess& process = *reply.add_processes();
  process.set_node(node);
  process.set_pid(host.pid());
  *process.mutable_names() = host.names();
  for (const std::string& actor : host.actors()) process.add_actors(to_string(id_from_raw<ActorId>(actor)));
  for (const protocol::TimelineThread& thread : host.threads()) {
    v1::TimelineThread& row = *process.add_threads();
    row.set_id(thread.id());
    row.set_name(thread.name());
  }
  const int left_out = std::max(0, host.events_size() - room);  // Each thread's oldest events come first.
  process.set_forgotten(host.forgotten() + static_cast<uint64_t>(left_out));
  for (int at = left_out; at < host.events_size(); ++at) {
    const protocol::TimelineEvent& event = host.events(at);
    const auto within = [](uint32_t index, int size) { return index < static_cast<uint32_t>(size); };
    if (!within(event.name(), host.names_size()) || !within(event.actor(), host.actors_size()) ||
        !within(event.thread(), host.threads_size()))
      continue;
    v1::TimelineEvent& row = *process.add_events();
    row.set_name(event.name());
    row.set_actor(event.actor());
    row.set_thread(event.thread());
    row.set_start_us(event.start_us());
    row.set_span_ns(event.span_ns());
    row.set_calls(event.calls());
    row.set_running(event.running());
    row.set_failed(event.failed());
  }
  room -= process.events_size();
}

// State of one request; confined to the loop.
struct TimelineGathering : std::enable_shared_from_this<TimelineGathering> {
  TimelineGathering(CoreRunner& of, security::Principal asks) : runner(of), by(std::move(asks)) {}

  CoreRunner& runner;
  const security::Principal by;
  v1::TimelineReply reply;
  std::function<void(Result<v1::TimelineReply>)> done;
  size_t missing = 0;
  int room = kEventsInAllMax;

  void add(const std::string& node, const Result<protocol::WorkerMessage>& answer) {
    if (!answer) {
      reply.add_missing(fmt::format("node {}: {}", node, answer.error().message));
      return;
    }
    const protocol::Timeline& timeline = answer->timeline();
    if (timeline.silent() > 0)
      reply.add_missing(fmt::format("node {}: {} of its processes did not answer", node, timeline.silent()));
    for (const protocol::HostTimeline& host : timeline.hosts()) add_process(reply, node, host, room);
  }
  void finish() {
    runner.ask([self = shared_from_this()](const HeadCore& core, BootTime) {
      auto& processes = *self->reply.mutable_processes();
      const auto hidden = std::ranges::remove_if(processes, [&](const v1::TimelineProcess& process) {
        return std::ranges::any_of(process.actors(), [&](const std::string& actor) {
          return !core.lookups().shows(parse_id<ActorId>(actor).value_or(ActorId()), self->by);
        });
      });
      processes.erase(hidden.begin(), hidden.end());
      self->done(std::move(self->reply));
    });
  }
};

// A process not started by a worker.
struct Other {
  int32_t pid = 0;
  const char* kind = "";
  std::string program;
};

// By the node on their machine; an empty name: no node there.
std::map<std::string, std::vector<Other>> others_by_node(const HeadCore& core) {
  std::map<std::string, std::vector<Other>> others;
  others[core.lookups().node_on(machine_id().value_or(""))].push_back({::getpid(), "head", "volador"});
  for (const ConnectedProgram& program : core.lookups().connected_programs())
    others[program.node].push_back({program.pid, "program", program.name});
  return others;
}

// State of one request; confined to the loop.
struct ProcessGathering : std::enable_shared_from_this<ProcessGathering> {
  ProcessGathering(CoreRunner& of, std::function<void(Result<v1::NodeProcesses>)> answer)
      : runner(of), done(std::move(answer)) {}

  CoreRunner& runner;
  const std::function<void(Result<v1::NodeProcesses>)> done;
  v1::NodeProcesses reply;
  size_t missing = 0;

  v1::NodeProcess& add(const Other& other, const std::string& node) {
    v1::NodeProcess& row = *reply.add_processes();
    row.set_pid(other.pid);
    row.set_kind(other.kind);
    row.set_program(other.program);
    row.set_node(node);
    return row;
  }
  void add(const protocol::ProcessList& list, const std::vector<Other>& others, const std::string& node) {
    for (const protocol::ProcessUsage& one : list.processes()) {
      const auto known = std::find_if(others.begin(), others.end(), [&](const Other& other) {
        return one.kind() == "other" && other.pid == one.pid();
      });
      v1::NodeProcess& row =
          known != others.end() ? add(*known, node) : add({one.pid(), one.kind().c_str(), one.program()}, node);
      for (const std::string& actor : one.actor_ids()) row.add_actors(to_string(id_from_raw<ActorId>(actor)));
      if (one.has_cpu_cores()) row.set_cpu_cores(one.cpu_cores());
      if (one.has_ends_in_ms()) row.set_ends_in_ms(one.ends_in_ms());
      row.set_memory_bytes(one.memory_bytes());
      row.set_started_ms(one.started_ms());
    }
  }
  // Hosts are labelled with the program whose actors they run.
  void finish() {
    runner.ask([self = shared_from_this()](const HeadCore& core, BootTime) {
      for (v1::NodeProcess& row : *self->reply.mutable_processes()) {
        const auto actor = row.actors_size() == 0 ? Result<ActorId>(ActorId{}) : parse_id<ActorId>(row.actors(0));
        if (const std::string name = actor ? core.lookups().program_of(*actor) : ""; !name.empty())
          row.set_program(name);
      }
      self->done(std::move(self->reply));
    });
  }
};

}  // namespace

void read_stack(CoreRunner& runner, std::string id, const security::Principal& by,
                std::function<void(Result<v1::StackReply>)> done) {
  runner.ask([&runner, id = std::move(id), by, done = std::move(done)](const HeadCore& core, BootTime) {
    const auto running = core.lookups().find_running(id, by);
    if (!running) return done(make_error(running.error()));
    const auto question = [actor = running->actor](uint64_t number) {
      protocol::HeadToWorker message;
      message.mutable_read_stacks()->set_request(number);
      message.mutable_read_stacks()->set_actor_id(raw(actor));
      return message;
    };
    runner.ask_node(running->session, question, [of = *running, done](const Result<protocol::WorkerMessage>& answer) {
      done(answer ? stack_reply(answer->stacks(), of) : make_error(answer.error()));
    });
  });
}

void read_processes(CoreRunner& runner, std::string node, std::function<void(Result<v1::NodeProcesses>)> done) {
  runner.ask([&runner, node = std::move(node), done = std::move(done)](const HeadCore& core, BootTime now) {
    std::vector<std::pair<std::string, NodeSession>> nodes;
    const auto only = node.empty() ? Result<NodeSession>(NodeSession{}) : core.lookups().node_session(node);
    if (!only) return done(make_error(only.error()));
    const auto gathering = std::make_shared<ProcessGathering>(runner, done);
    const v1::ListNodesReply all = core.lists().nodes(now, v1::ListRequest());
    for (const v1::Node& one : all.nodes()) {
      const auto session = core.lookups().node_session(one.name());
      if (session && (node.empty() || *session == *only)) nodes.emplace_back(one.name(), *session);
      if (!session && node.empty() && one.state() != "dead") gathering->reply.add_missing(session.error().message);
    }
    const auto others = others_by_node(core);
    if (const auto away = others.find(""); node.empty() && away != others.end()) {
      for (const Other& other : away->second) gathering->add(other, "");
    }
    gathering->missing = nodes.size();
    if (nodes.empty()) return gathering->finish();
    for (const auto& [name, session] : nodes) {
      const auto here = others.find(name);
      const auto known = here == others.end() ? std::vector<Other>() : here->second;
      const auto question = [known](uint64_t number) {
        protocol::HeadToWorker message;
        message.mutable_list_processes()->set_request(number);
        for (const Other& other : known) message.mutable_list_processes()->add_others(other.pid);
        return message;
      };
      runner.ask_node(
          session, question,
          [gathering, name = name, known, alone = !node.empty()](const Result<protocol::WorkerMessage>& answer) {
            if (!answer && alone) return gathering->done(make_error(answer.error()));
            if (answer)
              gathering->add(answer->processes(), known, name);
            else
              gathering->reply.add_missing(fmt::format("node {}: {}", name, answer.error().message));
            if (--gathering->missing == 0) gathering->finish();
          });
    }
  });
}

void read_timeline(CoreRunner& runner, v1::TimelineRequest request, const security::Principal& by,
                   std::function<void(Result<v1::TimelineReply>)> done) {
  if (request.limit() < 0)
    return done(make_error(ErrorCode::kInvalidArgument,
                           fmt::format("limit: expected a number of events, got {}", request.limit())));
  runner.ask([&runner, asked = std::move(request), by, done = std::move(done)](const HeadCore& core, BootTime now) {
    std::vector<std::pair<std::string, NodeSession>> nodes;
    protocol::ReadTimeline read;
    read.set_events(asked.limit() == 0 ? kEventsDefault : asked.limit());
    if (asked.id().empty()) {
      const v1::ListNodesReply all = core.lists().nodes(now, v1::ListRequest());
      for (const v1::Node& node : all.nodes()) {
        if (const auto session = core.lookups().node_session(node.name())) nodes.emplace_back(node.name(), *session);
      }
    } else {
      const auto running = core.lookups().find_running(asked.id(), by);
      if (!running) return done(make_error(running.error()));
      nodes.emplace_back(running->node_name, running->session);
      read.set_actor_id(raw(running->actor));
    }
    if (nodes.empty()) return done(v1::TimelineReply());
    const auto gathering = std::make_shared<TimelineGathering>(runner, by);
    gathering->done = done;
    gathering->missing = nodes.size();
    const auto question = [read](uint64_t number) {
      protocol::HeadToWorker message;
      *message.mutable_read_timeline() = read;
      message.mutable_read_timeline()->set_request(number);
      return message;
    };
    for (const auto& [name, session] : nodes) {
      runner.ask_node(session, question, [gathering, name = name](const Result<protocol::WorkerMessage>& answer) {
        gathering->add(name, answer);
        if (--gathering->missing == 0) gathering->finish();
      });
    }
  });
}

}  // namespace volador::head
