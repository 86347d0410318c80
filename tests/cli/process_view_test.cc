#include "cli/render/process_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dashboard/process_json.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::cli {
namespace {

using ::testing::HasSubstr;

v1::StackReply stack() {
  v1::StackReply made;
  made.set_actor("3f2a00000000000000000000000000aa");
  made.set_display("trial 3f2a");
  made.set_node("heron");
  made.set_pid(4711);
  v1::ThreadStack& busy = *made.add_threads();
  busy.set_thread(4713);
  busy.set_name("Store");
  busy.set_state("S");
  busy.set_runs("Store::load");
  busy.set_actor(made.actor());
  busy.set_runs_ms(12'000);
  busy.add_frames("Store::load(int)+0x4c in my_program");
  v1::ThreadStack& deaf = *made.add_threads();
  deaf.set_thread(4714);
  deaf.set_name("bad\x1bname");
  deaf.set_state("D");
  deaf.set_note("it waits in the kernel, where no signal reaches it");
  return made;
}

TEST(StackText, SaysWhatEachThreadRunsAndWhereItIs) {
  EXPECT_EQ(stack_text(stack()),
            "actor trial 3f2a (3f2a0000) on node heron, pid 4711, 2 threads\n\n"
            "thread 4713 \"Store\" S runs Store::load for 12 s\n"
            "  Store::load(int)+0x4c in my_program\n\n"
            "thread 4714 \"bad?name\" D\n"
            "  (it waits in the kernel, where no signal reaches it)\n");
  const auto json = nlohmann::json::parse(stack_json(stack()));
  EXPECT_EQ(json["api_version"], "v1");
  EXPECT_EQ(json["threads"][0]["runs_ms"], 12'000);
  EXPECT_EQ(json["threads"][1]["frames"], nlohmann::json::array());
}

v1::NodeProcesses processes() {
  v1::NodeProcesses made;
  const auto add = [&](int pid, const char* kind, const char* program) -> v1::NodeProcess& {
    v1::NodeProcess& row = *made.add_processes();
    row.set_pid(pid);
    row.set_kind(kind);
    row.set_node("heron");
    row.set_program(program);
    row.set_memory_bytes(3 << 20);
    return row;
  };
  add(14, "template", "train").set_ends_in_ms(541'999);
  add(13, "actors", "train").add_actors("3f2a00000000000000000000000000aa");
  add(12, "program", "train").set_memory_bytes(0);
  add(11, "worker", "volador");
  add(10, "head", "volador");
  return made;
}

TEST(ProcessesText, GoesByRoleAndSaysWhenTemplatesEnd) {
  v1::NodeProcesses found = processes();
  sort_processes(found);
  EXPECT_EQ(processes_text(found, 4, Terminal(Terminal::Options{})),
            "node   role     program  pid  memory  actors\n"
            "heron  head     volador   10   3 MiB\n"
            "heron  worker   volador   11   3 MiB\n"
            "heron  program  train     12\n"
            "heron  actors   train     13   3 MiB       1\n"
            "… 1 more: --limit=5\n");
  EXPECT_THAT(processes_text(found, 5, Terminal(Terminal::Options{})), HasSubstr("541 s"));
  const auto json = nlohmann::json::parse(processes_json(found, 5));
  EXPECT_EQ(json["total"], 5);
  EXPECT_EQ(json["processes"][4]["ends_in_s"], 541);
  EXPECT_FALSE(json["processes"][3].contains("ends_in_s"));
  EXPECT_EQ(json["processes"][0]["kind"], "head");
}

v1::TimelineReply timeline() {
  v1::TimelineReply made;
  for (const char* node : {"heron", "crane"}) {
    v1::TimelineProcess& process = *made.add_processes();
    process.set_node(node);
    process.set_pid(4711);
    process.add_names("Counter::add");
    process.add_actors("3f2a00000000000000000000000000aa");
    process.add_threads()->set_id(4713);
    process.set_forgotten(5);
    v1::TimelineEvent& event = *process.add_events();
    event.set_start_us(1'700'000'000'000'000);
    event.set_span_ns(1'500);
    event.set_calls(40);
  }
  made.mutable_processes(1)->mutable_events(0)->set_running(true);
  v1::TimelineEvent& damaged = *made.mutable_processes(1)->add_events();
  damaged.set_name(7);
  return made;
}

TEST(ChromeTrace, HasAProcessForEachAndItsCallsInMicroseconds) {
  const auto trace = nlohmann::json::parse(dashboard::chrome_trace(timeline()));
  std::vector<nlohmann::json> calls, processes;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") calls.push_back(event);
    if (event["name"] == "process_name") processes.push_back(event);
  }
  ASSERT_EQ(calls.size(), 2u) << "one that names nothing is left out";
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_NE(processes[0]["pid"], processes[1]["pid"]) << "two machines may give the same one";
  EXPECT_EQ(processes[0]["args"]["name"], "node heron, pid 4711");
  EXPECT_EQ(calls[0]["name"], "Counter::add");
  EXPECT_EQ(calls[0]["ts"], 1'700'000'000'000'000);
  EXPECT_EQ(calls[0]["dur"], 1.5);
  EXPECT_EQ(calls[0]["tid"], 4713);
  EXPECT_EQ(calls[0]["args"]["calls"], 40);
  EXPECT_EQ(calls[1]["args"]["running"], true);
}

TEST(TimelineText, SaysWhatWasSaved) {
  const std::string text = timeline_text(timeline(), "trace.json");
  EXPECT_THAT(text, HasSubstr("80 calls of 1 actor in 2 processes: trace.json\n"));
  EXPECT_THAT(text, HasSubstr("10 older entries are not kept\n"));
}

}  // namespace
}  // namespace volador::cli
