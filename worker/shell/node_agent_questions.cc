// NodeAgent: requests of the head about this node's hosts, processes, logs, run files and objects.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "runtime/protocol/error_info.h"
#include "runtime/quantities.h"
#include "worker/logs/log_tails.h"
#include "worker/shell/node_agent_impl.h"

namespace volador::worker {
namespace {

using std::chrono::milliseconds;

constexpr size_t kObjectRowsMax = 10'000;
constexpr size_t kObjectGroupsMax = 1'000;
constexpr size_t kDiskQuestionsMax = 256;

protocol::StoredObject to_message(const StoreTable::Row& row) {
  protocol::StoredObject object;
  object.set_node_id(raw(row.key.node));
  object.set_writer(row.key.writer);
  object.set_number(row.key.number);
  object.set_bytes(row.bytes);
  object.set_type(row.site);
  object.set_put_by(row.writer);
  for (const std::string& holder : row.holders) object.add_held_by(holder);
  object.set_copy(row.copy);
  object.set_in_memory(row.in_memory);
  object.set_spilled(row.spilled);
  object.set_references(row.references);
  object.set_place(row.place);
  return object;
}

protocol::ObjectGroup to_message(const StoreTable::Group& group) {
  protocol::ObjectGroup sent;
  sent.set_type(group.site);
  sent.set_place(group.place);
  sent.set_put_by(group.writer);
  sent.set_objects(group.objects);
  sent.set_bytes(group.bytes);
  sent.set_bytes_in_memory(group.in_memory);
  sent.set_bytes_spilled(group.spilled);
  sent.set_references(group.references);
  return sent;
}

}  // namespace

void NodeAgent::Impl::carry(HostQuestions::Step step) {
  for (auto& one : step.ask) hosts.send(one.host, one.message);
  for (protocol::WorkerMessage& answer : step.answers) {
    if (link) link->send(std::move(answer));
  }
  if (question_timer != 0) loop.cancel_timer(std::exchange(question_timer, 0));
  const auto next = questions.next_tick();
  if (!next || closed) return;
  question_timer = loop.add_timer(*next, [self = shared_from_this()] {
    self->question_timer = 0;
    if (!self->closed) self->carry(self->questions.on_tick(self->clock.now()));
  });
}

Actions NodeAgent::Impl::answer_stacks(const protocol::ReadStacks& asked) {
  carry(questions.read_stacks(clock.now(), asked, core.host_of(id_from_raw<ActorId>(asked.actor_id()))));
  return {};
}

Actions NodeAgent::Impl::answer_timeline(const protocol::ReadTimeline& asked) {
  std::vector<HostId> asked_of;
  if (asked.actor_id().empty()) {
    for (const auto& one : core.running()) asked_of.push_back(one.host);
  } else if (const auto host = core.host_of(id_from_raw<ActorId>(asked.actor_id()))) {
    asked_of.push_back(*host);
  }
  carry(questions.read_timeline(clock.now(), asked, asked_of));
  return {};
}

Actions NodeAgent::Impl::answer_processes(const protocol::ListProcesses& asked) {
  measure_processes(
      &asked, [this, request = asked.request(), number = session_seen](BootTime now, const Processes& measured) {
        protocol::WorkerMessage answer;
        protocol::ProcessList& list = *answer.mutable_processes();
        list.set_request(request);
        const int64_t booted_ms =
            unix_ms(clock.wall()) - std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count();
        const auto actors = core.actors_by_process();
        const auto held = templates.processes();
        const auto add = [&](int pid, const char* kind, const GroupUsage& taken) -> protocol::ProcessUsage& {
          protocol::ProcessUsage& row = *list.add_processes();
          row.set_pid(pid);
          row.set_kind(kind);
          row.set_memory_bytes(taken.memory_bytes);
          row.set_started_ms(booted_ms + std::llround(taken.started_seconds * 1000));
          row.set_program(measured.programs.at(pid));
          return row;
        };
        for (const auto& [pid, taken] : measured.own) {
          const auto own = actors.find(pid);
          const auto at = held.find(pid);
          protocol::ProcessUsage& row = add(pid,
                                            pid == ::getpid()     ? "worker"
                                            : own != actors.end() ? "actors"
                                            : at != held.end()    ? "template"
                                                                  : "spare",
                                            taken);
          if (own != actors.end()) {
            for (const ActorId actor : own->second) row.add_actor_ids(raw(actor));
          }
          if (at != held.end()) {
            row.set_program(at->second.program);
            if (at->second.ends_at)
              row.set_ends_in_ms(
                  std::max<int64_t>(0, std::chrono::duration_cast<milliseconds>(*at->second.ends_at - now).count()));
          }
          if (const auto cores = cpu_rates.cores(pid)) row.set_cpu_cores(*cores);
        }
        for (const auto& [pid, taken] : measured.others) add(pid, "other", taken);
        send_answer(number, std::move(answer));
      });
  return {};
}

void NodeAgent::Impl::send_answer(uint64_t number, protocol::WorkerMessage answer) {
  if (link && number == session.load()) link->send(std::move(answer));
}

template <class Part, class Read>
Actions NodeAgent::Impl::answer_of_disk(uint64_t request, Part* (protocol::WorkerMessage::*part)(), Read read) {
  if (disk_questions >= kDiskQuestionsMax) {
    protocol::WorkerMessage refused;
    (refused.*part)()->set_request(request);
    fill(*(refused.*part)()->mutable_error(),
         {ErrorCode::kUnavailable,
          fmt::format("{} wait for the disk of node {}; ask again later",
                      counted(disk_questions, "earlier question about logs"), options.core.node_name)});
    send_answer(session_seen, std::move(refused));
    return {};
  }
  ++disk_questions;
  disk.post(
      [part, read = std::move(read), number = session_seen, weak = weak_from_this()]() mutable -> JobThread::Then {
        protocol::WorkerMessage answer;
        *(answer.*part)() = read();
        return [weak, number, answer = std::move(answer)]() mutable {
          if (const auto self = weak.lock()) {
            --self->disk_questions;
            self->send_answer(number, std::move(answer));
          }
        };
      });
  return {};
}

Actions NodeAgent::Impl::answer_logs(const protocol::ReadLogs& asked) {
  return answer_of_disk(
      asked.request(), &protocol::WorkerMessage::mutable_log_tails,
      [asked, file = options.log_file, folder = options.hosts.log_dir] { return read_log_tails(asked, file, folder); });
}

Actions NodeAgent::Impl::answer_log_part(const protocol::ReadLog& asked) {
  protocol::ReadLog wanted = asked;
  const auto host = core.host_of(id_from_raw<ActorId>(asked.actor_id()));
  const auto owner = host ? hosts.log_owner(*host) : std::nullopt;
  if (owner && asked.run() == 0) {  // The process writes one log for all of its actors.
    wanted.set_actor_id(raw(owner->actor));
    wanted.set_run(owner->restarts + 1);
  }
  return answer_of_disk(asked.request(), &protocol::WorkerMessage::mutable_log_part,
                        [wanted, archive = log_archive] { return archive->read(wanted); });
}

Actions NodeAgent::Impl::answer_run_files(const protocol::ReadRunFiles& asked) {
  run_files.ask(asked, [weak = weak_from_this(), &io = loop, number = session_seen](protocol::RunFilesAnswer answer) {
    io.post([weak, number, answer = std::move(answer)]() mutable {
      const auto self = weak.lock();
      if (!self) return;
      protocol::WorkerMessage message;
      *message.mutable_run_files() = std::move(answer);
      self->send_answer(number, std::move(message));
    });
  });
  return {};
}

Actions NodeAgent::Impl::answer_objects(const protocol::ListStoredObjects& asked) {
  protocol::WorkerMessage answer;
  protocol::ObjectList& list = *answer.mutable_objects();
  list.set_request(asked.request());
  if (options.store != nullptr) {
    const auto usage_now = options.store->usage();
    list.set_bytes(usage_now.bytes);
    list.set_bytes_max(usage_now.bytes_max);
    list.set_objects_total(usage_now.objects);
    list.set_spilled(usage_now.spilled);
    list.set_spilled_max(usage_now.spilled_max);
    for (const auto& group : options.store->groups(kObjectGroupsMax)) *list.add_groups() = to_message(group);
    for (const auto& row :
         options.store->rows(std::min<size_t>(kObjectRowsMax, static_cast<size_t>(std::max(asked.limit(), 0)))))
      *list.add_objects() = to_message(row);
  }
  if (link) link->send(std::move(answer));
  return {};
}

}  // namespace volador::worker
