#include "worker/core/worker_core.h"

#include <gtest/gtest.h>

#include <csignal>

#include "runtime/random.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using protocol::DeathCause;

// A core with its own clock; every event is followed by a check of the invariants.
class WorkerCoreTest : public ::testing::Test {
 protected:
  WorkerCoreTest() : core_(options()) {}

  static CoreOptions options() {
    CoreOptions options;
    options.node_name = "heron";
    options.registration.set_name("heron");
    options.registration.set_node_id(std::string(16, 'n'));
    options.registration.set_machine_id("machine");
    options.registration.set_data_address("127.0.0.1:4000");
    return options;
  }

  template <class Event>
  Actions after(Event&& event) {
    Actions actions = event();
    core_.check_invariants();
    return actions;
  }

  Actions head(const protocol::HeadToWorker& message) {
    return after([&] { return core_.on_head_message(now_, message); });
  }
  Actions connect() {
    return after([&] { return core_.on_connected(now_); });
  }
  Actions disconnect() {
    return after([&] { return core_.on_disconnected(now_); });
  }
  Actions tick(std::chrono::nanoseconds by) {
    now_ += by;
    return after([&] { return core_.on_tick(now_, {}); });
  }
  Actions registered(std::vector<HostId> stale = {}) {
    protocol::HeadToWorker message;
    auto& registered = *message.mutable_registered();
    registered.set_cluster_name("birds");
    registered.set_lease_ms(3500);
    registered.set_heartbeat_ms(500);
    registered.set_park_max_ms(600'000);
    registered.set_sent_boot_ns(now_.time_since_epoch().count());
    for (const HostId id : stale) registered.add_stale_hosts(raw(id));
    return head(message);
  }
  Actions join() {
    Actions all = connect();
    for (Action& action : registered()) all.push_back(std::move(action));
    return all;
  }
  Actions ack(uint64_t sequence, BootTime sent) {
    protocol::HeadToWorker message;
    message.mutable_heartbeat_ack()->set_sequence(sequence);
    message.mutable_heartbeat_ack()->set_sent_boot_ns(sent.time_since_epoch().count());
    return head(message);
  }
  Actions start(HostId id, uint64_t epoch = 1) {
    protocol::HeadToWorker message;
    auto& start = *message.mutable_start_host();
    start.set_host_id(raw(id));
    start.set_epoch(epoch);
    start.mutable_spec()->set_actor_id(std::string(16, 'a'));
    start.mutable_spec()->set_class_name("Counter");
    return head(message);
  }
  Actions end(HostId id, int64_t grace_ms, DeathCause::Kind kind = DeathCause::KILLED) {
    protocol::HeadToWorker message;
    message.mutable_end_host()->set_host_id(raw(id));
    message.mutable_end_host()->set_grace_ms(grace_ms);
    message.mutable_end_host()->mutable_cause()->set_kind(kind);
    return head(message);
  }
  Actions launched(HostId id, int pid = 77) {
    protocol::HostStart extra;
    extra.set_socket_dir("/run/v");
    return after([&] { return core_.on_launched(now_, id, pid, extra); });
  }
  Actions ready(HostId id) {
    protocol::FromHost message;
    message.mutable_ready();
    return after([&] { return core_.on_host_message(now_, id, message); });
  }
  Actions exit(HostId id, HostExit how = {}) {
    return after([&] { return core_.on_host_exit(now_, id, how); });
  }
  HostId running() {
    const auto id = new_id<HostId>(random_);
    start(id);
    launched(id);
    ready(id);
    return id;
  }

  template <class T>
  static const T* find(const Actions& actions) {
    for (const Action& action : actions) {
      if (const T* found = std::get_if<T>(&action)) return found;
    }
    return nullptr;
  }
  template <class T>
  static size_t count(const Actions& actions) {
    size_t n = 0;
    for (const Action& action : actions) n += std::holds_alternative<T>(action) ? 1 : 0;
    return n;
  }
  static std::vector<protocol::WorkerMessage> sent(const Actions& actions, protocol::WorkerMessage::KindCase kind) {
    std::vector<protocol::WorkerMessage> found;
    for (const Action& action : actions) {
      const auto* send = std::get_if<SendToHead>(&action);
      if (send != nullptr && send->message.kind_case() == kind) found.push_back(send->message);
    }
    return found;
  }
  static std::vector<protocol::HostEnded> ends(const Actions& actions) {
    std::vector<protocol::HostEnded> found;
    for (const auto& message : sent(actions, protocol::WorkerMessage::kHostEnded))
      found.push_back(message.host_ended());
    return found;
  }

  SeededRandom random_{7};
  BootTime now_{1000s};
  WorkerCore core_;
};

TEST_F(WorkerCoreTest, RegistersOnEveryConnectionWithEverythingThatRuns) {
  Actions actions = connect();
  ASSERT_EQ(sent(actions, protocol::WorkerMessage::kRegister).size(), 1u);
  EXPECT_EQ(sent(actions, protocol::WorkerMessage::kRegister)[0].register_().hosts_size(), 0);
  registered();
  const HostId one = running();
  const HostId two = new_id<HostId>(random_);
  start(two);
  disconnect();
  disconnect();
  actions = connect();
  const auto message = sent(actions, protocol::WorkerMessage::kRegister).at(0).register_();
  ASSERT_EQ(message.hosts_size(), 2);
  EXPECT_EQ(message.sent_boot_ns(), now_.time_since_epoch().count());
  for (const auto& host : message.hosts()) {
    EXPECT_EQ(host.ready(), host.host_id() == raw(one));
    EXPECT_EQ(host.has_address(), host.ready());
  }
}

TEST_F(WorkerCoreTest, TheLeaseCountsFromTheSendingOfWhatWasAnswered) {
  connect();
  const BootTime sent_at = now_;
  Actions actions = registered();
  ASSERT_NE(find<SetLeaseDeadline>(actions), nullptr);
  EXPECT_EQ(find<SetLeaseDeadline>(actions)->deadline, sent_at + 3500ms);
  actions = tick(500ms);
  const auto beats = sent(actions, protocol::WorkerMessage::kHeartbeat);
  ASSERT_EQ(beats.size(), 1u);
  const BootTime beat_at = now_;
  now_ += 300ms;
  actions = ack(beats[0].heartbeat().sequence(), beat_at);
  EXPECT_EQ(find<SetLeaseDeadline>(actions)->deadline, beat_at + 3500ms);
  EXPECT_EQ(find<SetLeaseDeadline>(ack(beats[0].heartbeat().sequence(), beat_at)), nullptr) << "a repeated answer";
}

TEST_F(WorkerCoreTest, AnswersFromTheFutureAndToHeartbeatsNeverSentGrantNothing) {
  join();
  EXPECT_TRUE(ack(9, now_).empty());
  tick(500ms);
  const Actions actions = ack(1, now_ + 1h);
  EXPECT_EQ(find<SetLeaseDeadline>(actions)->deadline, now_ + 3500ms);
}

TEST_F(WorkerCoreTest, StaleHostsAreGoneBeforeTheLeaseIsRenewed) {
  join();
  const HostId stale = running();
  const HostId healthy = running();
  disconnect();
  now_ += 10s;
  connect();
  const BootTime before = *core_.lease_deadline();
  Actions actions = registered({stale});
  ASSERT_EQ(count<EndProcess>(actions), 1u);
  EXPECT_EQ(find<EndProcess>(actions)->host, stale);
  EXPECT_EQ(find<EndProcess>(actions)->grace, 0ms);
  EXPECT_EQ(find<SetLeaseDeadline>(actions), nullptr);
  tick(500ms);
  EXPECT_EQ(find<SetLeaseDeadline>(ack(1, now_)), nullptr) << "an acknowledged heartbeat renews nothing either";
  EXPECT_EQ(*core_.lease_deadline(), before);
  const BootTime acked = now_;
  actions = exit(stale, {.signal = SIGKILL});
  ASSERT_NE(find<SetLeaseDeadline>(actions), nullptr);
  EXPECT_EQ(find<SetLeaseDeadline>(actions)->deadline, acked + 3500ms);
  EXPECT_EQ(ends(actions).at(0).cause().kind(), DeathCause::LEASE_LOST);
  EXPECT_NE(core_.find_start(healthy), nullptr);
}

TEST_F(WorkerCoreTest, AStaleHostThatWasNeverToldToStartHoldsNothingUp) {
  join();
  const auto id = new_id<HostId>(random_);
  start(id);
  disconnect();
  now_ += 1s;
  connect();
  const Actions actions = registered({id});
  EXPECT_NE(find<CancelLaunch>(actions), nullptr);
  EXPECT_NE(find<SetLeaseDeadline>(actions), nullptr);
  const Actions late = launched(id);
  EXPECT_EQ(find<SendToHost>(late), nullptr) << "it must not learn what it was to run";
  EXPECT_EQ(find<EndProcess>(late)->grace, 0ms);
}

TEST_F(WorkerCoreTest, ALostConnectionChangesNothingForHosts) {
  join();
  const HostId id = running();
  EXPECT_TRUE(disconnect().empty());
  EXPECT_TRUE(tick(60s).empty());
  EXPECT_NE(core_.find_start(id), nullptr);
}

TEST_F(WorkerCoreTest, HostsParkedBeyondParkMaxEnd) {
  join();
  running();
  disconnect();
  EXPECT_EQ(find<EndProcess>(tick(603s)), nullptr);
  EXPECT_LE(core_.next_tick(now_) - now_, 1s);
  const Actions actions = tick(1s);
  ASSERT_NE(find<EndProcess>(actions), nullptr);
  EXPECT_TRUE(tick(1s).empty());
}

TEST_F(WorkerCoreTest, StartHostTwiceStartsOnce) {
  join();
  const auto id = new_id<HostId>(random_);
  EXPECT_EQ(count<LaunchHost>(start(id)), 1u);
  EXPECT_TRUE(start(id).empty());
  launched(id);
  EXPECT_TRUE(launched(id).empty());
  EXPECT_TRUE(start(id).empty());
  exit(id, {.exit_code = 3});
  const Actions again = start(id);
  EXPECT_EQ(count<LaunchHost>(again), 0u);
  EXPECT_EQ(ends(again).at(0).cause().exit_code(), 3);
}

TEST_F(WorkerCoreTest, ReadyIsReportedOnceAConnectionWithTheAddressMadeHere) {
  join();
  const auto id = new_id<HostId>(random_);
  start(id, 9);
  const Actions told = launched(id, 42);
  const auto* hello = find<SendToHost>(told);
  ASSERT_NE(hello, nullptr);
  EXPECT_EQ(hello->message.start().cluster_name(), "birds");
  EXPECT_EQ(hello->message.start().start().epoch(), 9u);
  const auto reports = sent(ready(id), protocol::WorkerMessage::kHostReady);
  ASSERT_EQ(reports.size(), 1u);
  const auto& report = reports[0].host_ready();
  EXPECT_EQ(report.epoch(), 9u);
  EXPECT_EQ(report.pid(), 42);
  EXPECT_EQ(report.address().unix_path(), "/run/v/" + to_string(id).substr(0, 16) + ".sock");
  EXPECT_TRUE(ready(id).empty());
}

TEST_F(WorkerCoreTest, AnotherProcessOfTheSameHostIsToldNothingAndReportedInItsPlace) {
  join();
  const auto id = new_id<HostId>(random_);
  start(id);
  EXPECT_EQ(count<SendToHost>(launched(id, 77)), 1u);
  EXPECT_TRUE(launched(id, 78).empty());
  const auto reports = sent(ready(id), protocol::WorkerMessage::kHostReady);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].host_ready().pid(), 78);
}

TEST_F(WorkerCoreTest, ReadyBetweenRegisterAndRegisteredIsReportedAfterIt) {
  join();
  const auto id = new_id<HostId>(random_);
  start(id);
  launched(id);
  disconnect();
  connect();
  EXPECT_TRUE(ready(id).empty());
  EXPECT_EQ(sent(registered(), protocol::WorkerMessage::kHostReady).size(), 1u);
}

TEST_F(WorkerCoreTest, AnEndIsRepeatedUntilAnAnswerOnTheSameConnectionProvesItArrived) {
  join();
  const HostId id = running();
  tick(500ms);
  EXPECT_EQ(ends(exit(id, {.exit_code = 1})).size(), 1u);
  ack(1, now_);  // A reply to a heartbeat from before the end: not sufficient.
  disconnect();
  auto hello = connect();
  EXPECT_EQ(sent(hello, protocol::WorkerMessage::kRegister).at(0).register_().ended_size(), 1);
  EXPECT_EQ(ends(registered()).size(), 1u);
  tick(500ms);
  ack(2, now_);
  disconnect();
  hello = connect();
  EXPECT_EQ(sent(hello, protocol::WorkerMessage::kRegister).at(0).register_().ended_size(), 0);
  EXPECT_TRUE(ends(registered()).empty());
}

TEST_F(WorkerCoreTest, AnEndWhileTheHeadIsAwayIsKept) {
  join();
  const HostId id = running();
  disconnect();
  EXPECT_TRUE(exit(id, {.signal = SIGSEGV}).empty());
  EXPECT_TRUE(exit(id, {.signal = SIGSEGV}).empty());
  connect();
  const auto ended = ends(registered());
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause().kind(), DeathCause::SIGNALED);
  EXPECT_EQ(ended[0].cause().signal(), SIGSEGV);
  EXPECT_EQ(ended[0].cause().node_name(), "heron");
  EXPECT_EQ(ended[0].cause().pid(), 77);
}

TEST_F(WorkerCoreTest, EndHostOfAnUnknownHostAnswersThatItEnded) {
  join();
  const auto ended = ends(end(new_id<HostId>(random_), 0));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause().kind(), DeathCause::KILLED);
}

TEST_F(WorkerCoreTest, EndHostAsksThenKillsAndReportsTheCauseOfTheHead) {
  join();
  const HostId id = running();
  Actions actions = end(id, 2000, DeathCause::DRIVER_GONE);
  ASSERT_NE(find<SendToHost>(actions), nullptr);
  EXPECT_EQ(find<SendToHost>(actions)->message.end().grace_ms(), 2000);
  EXPECT_EQ(find<EndProcess>(actions)->grace, 2000ms);
  actions = end(id, 0);
  EXPECT_EQ(find<SendToHost>(actions), nullptr);
  EXPECT_EQ(find<EndProcess>(actions)->grace, 0ms);
  const auto ended = ends(exit(id, {.signal = SIGKILL, .stderr_tail = "last words"}));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause().kind(), DeathCause::DRIVER_GONE);
  EXPECT_EQ(ended[0].cause().signal(), SIGKILL);
  EXPECT_EQ(ended[0].cause().stderr_tail(), "last words");
}

TEST_F(WorkerCoreTest, EndHostDuringTheLaunchCancelsIt) {
  join();
  const auto id = new_id<HostId>(random_);
  start(id);
  EXPECT_EQ(count<CancelLaunch>(end(id, 1000)), 1u);
  EXPECT_TRUE(end(id, 1000).empty());
  DeathCause cancelled;
  cancelled.set_kind(DeathCause::START_FAILED);
  const auto ended = ends(after([&] { return core_.on_launch_failed(now_, id, cancelled); }));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause().kind(), DeathCause::KILLED);
  EXPECT_TRUE(after([&] { return core_.on_launch_failed(now_, id, cancelled); }).empty());
}

TEST_F(WorkerCoreTest, AConstructorThatThrewIsTheCauseWhateverTheExit) {
  join();
  const auto id = new_id<HostId>(random_);
  start(id);
  launched(id);
  protocol::FromHost failed;
  failed.mutable_failed()->mutable_cause()->set_message("std::runtime_error: no data");
  EXPECT_TRUE(after([&] { return core_.on_host_message(now_, id, failed); }).empty());
  EXPECT_TRUE(after([&] { return core_.on_host_message(now_, id, failed); }).empty());
  EXPECT_EQ(find<EndProcess>(tick(2s))->grace, 0ms) << "it does not end by itself";
  const auto ended = ends(exit(id, {.signal = SIGKILL}));
  EXPECT_EQ(ended.at(0).cause().kind(), DeathCause::CONSTRUCTOR_THREW);
  EXPECT_EQ(ended.at(0).cause().message(), "std::runtime_error: no data");
}

TEST_F(WorkerCoreTest, AConstructorThatHangsIsEndedByName) {
  join();
  const auto id = new_id<HostId>(random_);
  start(id);
  launched(id);
  for (int i = 0; i < 59; ++i) {
    tick(1s);
    ack(static_cast<uint64_t>(i) + 1, now_);
  }
  EXPECT_NE(find<EndProcess>(tick(1s)), nullptr);
  const auto ended = ends(exit(id, {.signal = SIGKILL}));
  EXPECT_EQ(ended.at(0).cause().kind(), DeathCause::START_FAILED);
  EXPECT_NE(ended.at(0).cause().message().find("constructor of Counter"), std::string::npos);
}

TEST_F(WorkerCoreTest, AHostThatClosesItsControlSocketIsEnded) {
  join();
  const HostId id = running();
  EXPECT_NE(find<EndProcess>(after([&] { return core_.on_host_closed(now_, id); })), nullptr);
  EXPECT_TRUE(after([&] { return core_.on_host_closed(now_, id); }).empty());
}

TEST_F(WorkerCoreTest, RelaysWaitForTheHeadAndWelcomeFollowsThem) {
  join();
  const HostId id = running();
  disconnect();
  protocol::FromHost message;
  message.mutable_relay()->mutable_ping()->set_sequence(5);
  EXPECT_TRUE(after([&] { return core_.on_host_message(now_, id, message); }).empty());
  connect();
  const Actions actions = registered();
  EXPECT_EQ(sent(actions, protocol::WorkerMessage::kRelay).at(0).relay().host_id(), raw(id));
  ASSERT_NE(find<SendToHost>(actions), nullptr);
  EXPECT_TRUE(find<SendToHost>(actions)->message.relayed().has_welcome());
}

TEST_F(WorkerCoreTest, LinesThatNobodyHearsAreCounted) {
  join();
  const HostId id = running();
  disconnect();
  protocol::LogLines lines;
  lines.add_lines("one");
  lines.add_lines("two");
  EXPECT_TRUE(after([&] { return core_.on_log(now_, id, lines); }).empty());
  connect();
  registered();
  const auto logged = sent(after([&] { return core_.on_log(now_, id, lines); }), protocol::WorkerMessage::kLog);
  EXPECT_EQ(logged.at(0).log().dropped(), 2u);
  EXPECT_EQ(logged.at(0).log().display(), "Counter");
}

TEST_F(WorkerCoreTest, StopEndsEveryHostThenLeaves) {
  join();
  const HostId one = running();
  const auto two = new_id<HostId>(random_);
  start(two);
  protocol::HeadToWorker stop;
  stop.mutable_stop()->set_reason("drained");
  Actions actions = head(stop);
  EXPECT_EQ(count<EndProcess>(actions), 1u);
  EXPECT_EQ(count<CancelLaunch>(actions), 1u);
  ASSERT_FALSE(actions.empty());
  ASSERT_NE(std::get_if<SendToHead>(&actions.front()), nullptr) << "the head hears of it before the ends of hosts";
  EXPECT_TRUE(std::get<SendToHead>(actions.front()).message.has_stopping());
  EXPECT_TRUE(head(stop).empty());
  const auto late = new_id<HostId>(random_);
  const auto refused = ends(start(late));
  ASSERT_EQ(refused.size(), 1u) << "nothing new starts";
  EXPECT_EQ(refused[0].cause().kind(), DeathCause::NODE_LOST) << "it may start elsewhere";
  after([&] { return core_.on_launch_failed(now_, two, {}); });
  actions = exit(one, {.signal = SIGTERM});
  const auto ended = ends(actions);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause().kind(), DeathCause::NODE_LOST);
  EXPECT_EQ(ended[0].cause().message(), "node heron stops: drained");
  EXPECT_EQ(sent(actions, protocol::WorkerMessage::kLeaving).size(), 1u);
  ASSERT_NE(find<Finish>(actions), nullptr);
  EXPECT_FALSE(find<Finish>(actions)->error.has_value());
  EXPECT_TRUE(tick(1s).empty());
}

TEST_F(WorkerCoreTest, ARefusalFinishesWithItsReason) {
  connect();
  protocol::HeadToWorker refused;
  refused.mutable_refused()->set_code(static_cast<int>(ErrorCode::kInvalidArgument));
  refused.mutable_refused()->set_message("node heron is already here");
  const Actions actions = head(refused);
  ASSERT_NE(find<Finish>(actions), nullptr);
  EXPECT_EQ(find<Finish>(actions)->error->message, "node heron is already here");
}

TEST_F(WorkerCoreTest, ANodeWhoseTokenWasRevokedEndsItsHostsAndFinishes) {
  join();
  const HostId one = running();
  EXPECT_EQ(count<EndProcess>(disconnect()), 0u) << "a lost connection alone ends nothing";
  connect();
  Actions actions = after([&] {
    return core_.on_disconnected(now_, {ErrorCode::kUnauthenticated, "token 3f2a was revoked"});
  });
  EXPECT_EQ(count<EndProcess>(actions), 1u);
  EXPECT_EQ(find<Finish>(actions), nullptr);
  actions = exit(one, {.signal = SIGTERM});
  ASSERT_NE(find<Finish>(actions), nullptr);
  EXPECT_EQ(find<Finish>(actions)->error->message, "token 3f2a was revoked");
}

TEST_F(WorkerCoreTest, ASilentConnectionIsMadeAnewButNotAfterAPauseOfOurOwn) {
  join();
  for (int i = 0; i < 13; ++i) EXPECT_EQ(find<Reconnect>(tick(500ms)), nullptr);
  EXPECT_NE(find<Reconnect>(tick(500ms)), nullptr);
  EXPECT_EQ(find<Reconnect>(tick(500ms)), nullptr);
  join();
  EXPECT_EQ(find<Reconnect>(tick(30s)), nullptr);
}

TEST_F(WorkerCoreTest, HeartbeatsKeepTheirPaceAndDoNotPileUp) {
  join();
  size_t beats = 0;
  for (int i = 0; i < 50; ++i) beats += sent(tick(100ms), protocol::WorkerMessage::kHeartbeat).size();
  EXPECT_EQ(beats, 10u);
  EXPECT_EQ(sent(tick(30s), protocol::WorkerMessage::kHeartbeat).size(), 1u);
  EXPECT_TRUE(sent(tick(1ms), protocol::WorkerMessage::kHeartbeat).empty());
}

TEST_F(WorkerCoreTest, MessagesOnADeadConnectionAreIgnored) {
  join();
  disconnect();
  EXPECT_TRUE(start(new_id<HostId>(random_)).empty());
  EXPECT_TRUE(registered().empty());
  connect();
  EXPECT_TRUE(start(new_id<HostId>(random_)).empty()) << "not before Registered";
}

// Random events in random order, repeated and late: the state stays consistent and no renewal is given to a stale host.
TEST_F(WorkerCoreTest, SurvivesAnyOrderOfEvents) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    WorkerCore core(options());
    std::vector<HostId> ids;
    for (int i = 0; i < 6; ++i) ids.push_back(new_id<HostId>(random));
    BootTime now{1000s};
    uint64_t sequence = 0;
    for (int step = 0; step < 400; ++step) {
      now += std::chrono::milliseconds(random.below(400));
      const HostId id = ids[random.below(ids.size())];
      protocol::HeadToWorker message;
      Actions actions;
      switch (random.below(13)) {
        case 0:
          actions = core.on_connected(now);
          break;
        case 1:
          actions = core.on_disconnected(now);
          break;
        case 2:
        case 3:
          message.mutable_registered()->set_sent_boot_ns(now.time_since_epoch().count());
          if (random.below(2) == 0) message.mutable_registered()->add_stale_hosts(raw(id));
          actions = core.on_head_message(now, message);
          break;
        case 4:
        case 5:
          message.mutable_start_host()->set_host_id(raw(id));
          actions = core.on_head_message(now, message);
          break;
        case 6:
          message.mutable_end_host()->set_host_id(raw(id));
          message.mutable_end_host()->set_grace_ms(static_cast<int64_t>(random.below(3)) * 100);
          actions = core.on_head_message(now, message);
          break;
        case 7:
        case 8:
          actions = core.on_launched(now, id, 5, {});
          break;
        case 9: {
          protocol::FromHost from;
          if (random.below(3) == 0) {
            from.mutable_failed();
          } else {
            from.mutable_ready();
          }
          actions = core.on_host_message(now, id, from);
          break;
        }
        case 10:
          actions = core.on_host_exit(now, id, {.signal = SIGKILL});
          break;
        case 11:
          message.mutable_heartbeat_ack()->set_sequence(sequence);
          message.mutable_heartbeat_ack()->set_sent_boot_ns(now.time_since_epoch().count());
          actions = core.on_head_message(now, message);
          break;
        default:
          actions = core.on_tick(now, {});
      }
      core.check_invariants();
      for (const Action& action : actions) {
        if (const auto* send = std::get_if<SendToHead>(&action); send != nullptr && send->message.has_heartbeat()) {
          EXPECT_GT(send->message.heartbeat().sequence(), sequence);
          sequence = send->message.heartbeat().sequence();
        }
      }
      EXPECT_GE(core.next_tick(now), now);
    }
  }
}

}  // namespace
}  // namespace volador::worker
