// Random processes that put, read, release, free and die while the store spills and restores, with random delays of
// every message: only data that was put is ever read, and nothing is left at the end.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "runtime/random.h"
#include "runtime/store/free_list.h"
#include "runtime/store/object_name.h"
#include "worker/store/store_table.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kArenaBytes = 4 * 64;

// Models a process with store_client.cc, without threads: one arena range per object; the value is the object's number.
struct Process {
  struct Known {
    int64_t count = 0;
    std::optional<std::pair<ArenaKey, int64_t>> place;
    bool waiting = false;
    bool reading = false;
    bool freed = false;
    uint64_t wanted = 0;
  };
  uint64_t id = 0;
  uint64_t next_number = 1;
  uint64_t next_arena = 1;
  uint64_t next_request = 1;
  bool asks_room = false;
  std::map<uint64_t, FreeList> arenas;
  std::map<uint64_t, std::pair<uint64_t, size_t>> written;  // Number to arena and offset.
  std::map<ObjectKey, Known> known;
  std::map<uint64_t, ObjectKey> questions;
  std::deque<protocol::ToStore> up;
  std::deque<protocol::FromStore> down;
};

class World {
 public:
  explicit World(uint64_t seed, int64_t disk_bytes)
      : random_(seed), table_(node_, "heron", {.bytes_max = 6 * kArenaBytes, .spill_bytes_max = disk_bytes}) {}

  void step() {
    now_ += std::chrono::milliseconds(random_.below(20));
    const uint64_t dice = random_.below(100);
    if (processes_.size() < 3) return start();
    Process& process = any();
    if (dice < 1 && processes_.size() > 1) return end(process.id);
    if (dice < 40) return deliver_up(process);
    if (dice < 70) return deliver_down(process);
    if (dice < 80) return disk();
    if (dice < 84) return apply_actions(table_.on_tick(now_));
    if (dice < 90) return put(process);
    use(process);
  }
  // Delivers everything and releases all references.
  void finish() {
    for (int i = 0; i < 20'000 && !processes_.empty(); ++i) {
      now_ += 100ms;
      for (auto& [id, process] : processes_) {
        while (!process.up.empty()) deliver_up(process);
        while (!process.down.empty()) deliver_down(process);
      }
      disk();
      apply_actions(table_.on_tick(now_));
      if (i > 50) end(processes_.begin()->first);
    }
    while (!writes_.empty() || !reads_.empty()) disk();
    EXPECT_EQ(table_.objects(), 0u);
    EXPECT_EQ(table_.bytes_used(), 0);
    EXPECT_EQ(table_.spilled(), 0);
    EXPECT_TRUE(memory_.empty());
  }
  int reads() const { return reads_done_; }
  int restores() const { return restores_done_; }

 private:
  Process& any() {
    auto one = processes_.begin();
    std::advance(one, static_cast<long>(random_.below(processes_.size())));
    return one->second;
  }
  void start() {
    const uint64_t id = next_process_++;
    Process& process = processes_[id];
    process.id = id;
    table_.on_connected(StoreSession{id}, id * 100);
    process.up.emplace_back().mutable_hello();
  }
  void end(uint64_t id) {
    const auto gone = processes_.extract(id);
    for (const auto& message : gone.mapped().up) {  // The store never receives these.
      if (message.has_add_arena()) memory_.erase({id * 100, message.add_arena().arena()});
    }
    apply_actions(table_.on_gone(now_, StoreSession{id}));
  }
  void deliver_up(Process& process) {
    if (process.up.empty()) return;
    const protocol::ToStore message = process.up.front();
    process.up.pop_front();
    if (message.has_add_arena()) memory_[{process.id * 100, message.add_arena().arena()}];
    auto actions = table_.on_message(now_, StoreSession{process.id}, message);
    ASSERT_TRUE(actions.cut.empty()) << actions.cut[0].why;
    apply_actions(std::move(actions));
  }
  void apply_actions(StoreActions actions) {
    table_.check_invariants();
    for (const auto& one : actions.discard) disk_.erase(one.offset);
    for (const auto& one : actions.spill) writes_.push_back(one);
    for (const auto& one : actions.restore) {
      memory_[{0, one.arena}];
      reads_.push_back(one);
    }
    for (auto& one : actions.send) {
      const auto to = processes_.find(static_cast<uint64_t>(one.to));
      if (to != processes_.end()) to->second.down.push_back(std::move(one.message));
    }
    for (const ArenaKey& key : actions.close) memory_.erase(key);
  }
  void disk() {
    if (!writes_.empty() && random_.below(2) == 0) {
      const auto job = writes_.front();
      writes_.pop_front();
      if (random_.below(10) == 0)
        return apply_actions(table_.on_spilled(now_, job, make_error(ErrorCode::kUnavailable, "disk full")));
      if (const auto arena = memory_.find(job.arena); arena != memory_.end())
        disk_[job.to.offset] = arena->second[job.offset];
      return apply_actions(table_.on_spilled(now_, job, std::make_shared<const std::vector<uint32_t>>()));
    }
    if (reads_.empty()) return;
    const auto job = reads_.front();
    reads_.pop_front();
    if (random_.below(10) == 0)
      return apply_actions(table_.on_restored(now_, job.key, job.arena, make_error(ErrorCode::kObjectLost, "damaged")));
    memory_[{0, job.arena}][0] = disk_[job.from.offset];
    ++restores_done_;
    apply_actions(table_.on_restored(now_, job.key, job.arena, {}));
  }

  // ---- a process ----

  void put(Process& process) {
    for (auto& [number, ranges] : process.arenas) {
      const auto offset = ranges.allocate(64 + random_.below(128));
      if (!offset) continue;
      const ObjectKey key{node_, process.id * 100, process.next_number++};
      process.written[key.number] = {number, *offset};
      memory_[{process.id * 100, number}][static_cast<int64_t>(*offset)] = key.number + process.id * 1'000'000;
      auto& known = process.known[key];
      known.count = 1;
      known.place = {{process.id * 100, number}, static_cast<int64_t>(*offset)};
      auto& message = *process.up.emplace_back().mutable_put();
      message.set_number(key.number);
      message.set_arena(number);
      message.set_offset(static_cast<int64_t>(*offset));
      message.set_bytes(64);
      return;
    }
    if (std::exchange(process.asks_room, true)) return;
    process.up.emplace_back().mutable_reserve()->set_bytes(kArenaBytes);
  }
  void use(Process& process) {
    if (process.known.empty()) return;
    auto one = process.known.begin();
    std::advance(one, static_cast<long>(random_.below(process.known.size())));
    auto& [key, known] = *one;
    const uint64_t dice = random_.below(12);
    if (dice < 4) return read(process, key, known);
    if (dice < 7) return stop_reading(process, key, known);
    if (dice < 9) return pass_on(key);
    if (dice < 10 && random_.below(4) == 0) {
      *process.up.emplace_back().mutable_free()->mutable_name() = to_message(key);
      return;
    }
    if (known.reading || known.waiting) return;
    *process.up.emplace_back().mutable_release()->mutable_name() = to_message(key);
    if (--known.count == 0) process.known.erase(one);
  }
  void read(Process& process, const ObjectKey& key, Process::Known& known) {
    if (known.freed || known.waiting) return;
    if (known.place) {
      known.reading = true;
      return check(key, known);
    }
    known.waiting = true;
    auto& message = *process.up.emplace_back().mutable_locate();
    message.set_request(process.next_request);
    *message.mutable_name() = to_message(key);
    process.questions[process.next_request++] = key;
  }
  void check(const ObjectKey& key, const Process::Known& known) {
    ++reads_done_;
    const auto arena = memory_.find(known.place->first);
    ASSERT_TRUE(arena != memory_.end()) << "object " << to_string(key);
    ASSERT_EQ(arena->second.at(known.place->second), key.number + key.writer / 100 * 1'000'000);
  }
  void stop_reading(Process& process, const ObjectKey& key, Process::Known& known) {
    if (!std::exchange(known.reading, false)) return;
    check(key, known);  // Until the last moment.
    if (known.wanted == 0) return;
    known.place.reset();
    auto& one = *process.up.emplace_back().mutable_yield()->add_objects();
    *one.mutable_name() = to_message(key);
    one.set_serial(std::exchange(known.wanted, 0));
  }
  void pass_on(const ObjectKey& key) {
    Process& to = any();
    auto& message = *to.up.emplace_back().mutable_acquire();
    message.set_request(to.next_request);
    *message.mutable_name() = to_message(key);
    to.questions[to.next_request++] = key;
    auto& known = to.known[key];
    ++known.count;
    known.waiting = true;
  }
  void deliver_down(Process& process) {
    if (process.down.empty()) return;
    const protocol::FromStore message = process.down.front();
    process.down.pop_front();
    if (message.has_reserved()) {
      process.asks_room = false;
      if (message.reserved().error_code() != 0) return;
      process.arenas.emplace(process.next_arena, FreeList(kArenaBytes));
      auto& add = *process.up.emplace_back().mutable_add_arena();
      add.set_arena(process.next_arena++);
      add.set_bytes(kArenaBytes);
    } else if (message.has_located()) {
      on_located(process, message.located());
    } else if (message.has_freed()) {
      for (const uint64_t number : message.freed().numbers()) {
        const auto range = process.written.extract(number);
        if (range.empty()) continue;
        memory_.at({process.id * 100, range.mapped().first}).erase(static_cast<int64_t>(range.mapped().second));
        process.arenas.at(range.mapped().first).free(range.mapped().second);
      }
      if (message.freed().drop()) drop_empty(process);
    } else if (message.has_trim()) {
      drop_empty(process);
    } else if (message.has_reclaim()) {
      on_reclaim(process, message.reclaim());
    }
  }
  void drop_empty(Process& process) {
    for (auto arena = process.arenas.begin(); arena != process.arenas.end();) {
      if (!arena->second.is_empty()) {
        ++arena;
        continue;
      }
      process.up.emplace_back().mutable_drop_arena()->set_arena(arena->first);
      arena = process.arenas.erase(arena);
    }
  }
  void on_located(Process& process, const protocol::Located& located) {
    const auto question = process.questions.extract(located.request());
    const auto found = process.known.find(question.mapped());
    if (found == process.known.end()) return;
    auto& known = found->second;
    known.waiting = false;
    if (located.error_code() != 0) {  // For one read, or permanently.
      if (!known.reading && known.place && known.freed) known.place.reset();
      return;
    }
    if (!located.away()) known.place = {{located.writer(), located.arena()}, located.offset()};
  }
  void on_reclaim(Process& process, const protocol::Reclaim& reclaim) {
    auto& answer = *process.up.emplace_back().mutable_yield();
    for (const auto& asked : reclaim.objects()) {
      auto& one = *answer.add_objects();
      *one.mutable_name() = asked.name();
      one.set_serial(asked.serial());
      const auto found = process.known.find(object_key_of(asked.name()));
      if (found == process.known.end()) continue;
      auto& known = found->second;
      known.freed |= reclaim.freed();
      if (!known.place) continue;
      if (known.reading) {
        known.wanted = asked.serial();
        one.set_answer(protocol::YieldObjects::READING);
      } else if (!reclaim.insist() && random_.below(3) == 0) {
        one.set_answer(protocol::YieldObjects::READ_LATELY);
      } else {
        known.place.reset();
      }
    }
  }

  SeededRandom random_;
  const NodeId node_{{1}};
  StoreTable table_;
  BootTime now_ = BootTime{} + 1s;
  uint64_t next_process_ = 1;
  std::map<uint64_t, Process> processes_;
  std::map<ArenaKey, std::map<int64_t, uint64_t>> memory_;  // Contents by location.
  std::map<int64_t, uint64_t> disk_;
  std::deque<StoreActions::Spill> writes_;
  std::deque<StoreActions::Restore> reads_;
  int reads_done_ = 0;
  int restores_done_ = 0;
};

TEST(StoreTableSpill, NobodyEverReadsAnythingButWhatWasPut) {
  int reads = 0;
  int restores = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, seed % 3 == 0 ? 5 * 4096 : 1'000 * 4096);
    for (int i = 0; i < 6000 && !::testing::Test::HasFatalFailure(); ++i) world.step();
    world.finish();
    reads += world.reads();
    restores += world.restores();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(reads, 5'000);
  EXPECT_GT(restores, 100);
}

}  // namespace
}  // namespace volador::worker
