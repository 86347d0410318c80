// Messages to an object store from processes and from stores of other nodes: for any contents and order the tables stay
// consistent, protocol violations end the connection, and nothing is left after all clients disconnected.
#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/store/object_name.h"
#include "tests/fuzz/driver.h"
#include "worker/store/store_table.h"

namespace {

using namespace volador;
using namespace volador::worker;

const NodeId kHere(std::array<uint8_t, 16>{1});
const NodeId kThere(std::array<uint8_t, 16>{2});

// Numbers from the input; 0 at its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(data, size) {}
  bool empty() const { return rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }
  // Mostly small, occasionally extreme.
  int64_t number() {
    const uint8_t first = byte();
    switch (first) {
      case 0xff:
        return INT64_MAX;
      case 0xfe:
        return INT64_MIN;
      case 0xfd:
        return -1;
      case 0xfc:
        return int64_t{1} << 40;
      default:
        return first % 16 == 15 ? int64_t{first} << 12 : first % 16;
    }
  }
  std::string bytes() {
    const size_t asked = byte();
    const size_t size = std::min(asked, rest_.size());
    std::string text(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
    return text;
  }

 private:
  std::span<const uint8_t> rest_;
};

class Store {
 public:
  Store() : table_(kHere, "here", limits()) {}

  void step(Input& input) {
    now_ += std::chrono::milliseconds(input.byte() % 8 == 0 ? 5'000 : 1);
    const uint64_t client = 1 + input.byte() % 4;
    if (!connected_.contains(client)) connect(client);
    switch (input.byte() % 8) {
      case 0:
        apply_actions(input.byte() % 8 == 0 ? table_.drop_spares() : table_.on_tick(now_));
        break;
      case 1:
        connected_.erase(client);
        apply_actions(table_.on_gone(now_, StoreSession{client}));
        break;
      case 2: {
        protocol::ToStore message;
        if (message.ParseFromString(input.bytes())) say(client, message);
        break;
      }
      default:
        say(client, message(input));
        break;
    }
    settle(input);
    table_.check_invariants();
  }
  void leave() {
    for (const uint64_t client : std::exchange(connected_, {}))
      apply_actions(table_.on_gone(now_, StoreSession{client}));
    Input nothing(nullptr, 0);
    for (int round = 0; round < 50; ++round) {
      settle(nothing);
      now_ += std::chrono::seconds(10);
      apply_actions(table_.on_tick(now_));
    }
    table_.check_invariants();
    VOLADOR_CHECK(
        table_.objects() == 0 && table_.bytes_used() == 0,
        std::to_string(table_.objects()) + " objects, " + std::to_string(table_.bytes_used()) + " bytes are left");
  }

 private:
  static StoreLimits limits() {
    StoreLimits limits;
    limits.bytes_max = 100'000;
    limits.arenas_max = 8;
    limits.waiting_max = 8;
    limits.spare_bytes_min = 1;
    limits.spares_max = 4;
    return limits;
  }
  static bool is_node(uint64_t client) { return client == 4; }

  // Filtered like in the server: stores of other nodes may only send messages about references.
  void say(uint64_t client, const protocol::ToStore& message) {
    using Kind = protocol::ToStore;
    const auto kind = message.kind_case();
    if (is_node(client) && kind != Kind::kAcquire && kind != Kind::kRelease && kind != Kind::kLend &&
        kind != Kind::kFree)
      return;
    apply_actions(table_.on_message(now_, StoreSession{client}, message));
  }
  void connect(uint64_t client) {
    connected_.insert(client);
    table_.on_connected(StoreSession{client}, is_node(client) ? 0 : client);
    protocol::ToStore hello;
    hello.mutable_hello()->set_who("client");
    if (is_node(client)) hello.mutable_hello()->set_address("127.0.0.1:1");
    apply_actions(table_.on_message(now_, StoreSession{client}, hello));
  }
  protocol::ObjectName name(Input& input) {
    const uint8_t which = input.byte();
    protocol::ObjectName made =
        to_message(ObjectKey{which % 4 == 0 ? kThere : kHere, which / 4 % 5u, static_cast<uint64_t>(input.number())});
    made.set_address("127.0.0.1:2");
    return made;
  }
  protocol::ToStore message(Input& input) {
    protocol::ToStore made;
    switch (input.byte() % 12) {
      case 0:
        made.mutable_reserve()->set_request(++requests_);
        made.mutable_reserve()->set_bytes(input.number() * 1'000);
        break;
      case 1:
        made.mutable_add_arena()->set_arena(static_cast<uint64_t>(input.number()));
        made.mutable_add_arena()->set_bytes(input.number() * 1'000);
        break;
      case 2:
        made.mutable_drop_arena()->set_arena(static_cast<uint64_t>(input.number()));
        made.mutable_drop_arena()->set_bytes(input.number() * 1'000);
        break;
      case 3:
        made.mutable_put()->set_number(static_cast<uint64_t>(input.number()));
        made.mutable_put()->set_arena(static_cast<uint64_t>(input.number()));
        made.mutable_put()->set_offset(input.number() * 100);
        made.mutable_put()->set_bytes(input.number() * 100);
        break;
      case 4:
        made.mutable_acquire()->set_request(++requests_);
        made.mutable_acquire()->set_claim(input.byte() % 3 == 0);
        *made.mutable_acquire()->mutable_name() = name(input);
        break;
      case 5:
        *made.mutable_release()->mutable_name() = name(input);
        break;
      case 6:
        *made.mutable_lend()->mutable_name() = name(input);
        break;
      case 7:
        made.mutable_cancel_reserve()->set_request(static_cast<uint64_t>(input.number()));
        break;
      case 8:
        made.mutable_locate()->set_request(++requests_);
        *made.mutable_locate()->mutable_name() = name(input);
        break;
      case 9: {
        auto& one = *made.mutable_yield()->add_objects();
        *one.mutable_name() = name(input);
        one.set_serial(static_cast<uint64_t>(input.number()));
        one.set_answer(static_cast<protocol::YieldObjects::Answer>(input.byte() % 3));
        break;
      }
      case 10:
        *made.mutable_free()->mutable_name() = name(input);
        break;
      default:
        made.mutable_hello()->set_pid(1);
        break;
    }
    return made;
  }
  void apply_actions(StoreActions actions) {
    for (const StoreActions::Home& one : actions.home) {
      if (one.what == StoreActions::Home::What::kFetch) fetches_.push_back(one.key);
    }
    for (const StoreActions::Cut& cut : actions.cut) {
      if (connected_.erase(static_cast<uint64_t>(cut.client)) > 0) apply_actions(table_.on_gone(now_, cut.client));
    }
  }
  // Copies arrive, or do not.
  void settle(Input& input) {
    for (const ObjectKey& key : std::exchange(fetches_, {})) {
      if (input.byte() % 4 == 3) {
        apply_actions(table_.on_fetched(now_, key, make_error(ErrorCode::kObjectLost, "lost")));
      } else {
        apply_actions(table_.reserve_copy(now_, key, 5'000));
      }
    }
    for (auto& [key, room] : table_.take_rooms()) {
      if (room) table_.set_copy(key, *room, 5'000);
      apply_actions(table_.on_fetched(now_, key, room ? Result<void>() : make_error(room.error())));
    }
  }

  StoreTable table_;
  BootTime now_{std::chrono::hours(1)};
  std::set<uint64_t> connected_;
  std::vector<ObjectKey> fetches_;
  uint64_t requests_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Store store;
  while (!input.empty()) store.step(input);
  store.leave();
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  // A client reserves, shares an arena, puts, is read by another, lends, releases; copies on another node; frees.
  const auto step = [](std::vector<int> bytes) {
    std::string text;
    for (const int byte : bytes) text += static_cast<char>(byte);
    return text;
  };
  const std::string put = step({1, 0, 3, 0, 5}) + step({1, 0, 3, 1, 1, 5}) + step({1, 0, 3, 3, 1, 1, 0, 9});
  const std::string read = step({1, 1, 3, 4, 1, 5, 1}) + step({1, 1, 3, 6, 5, 1}) + step({1, 1, 3, 5, 5, 1});
  const std::string copy = step({1, 1, 3, 4, 1, 0, 1, 0}) + step({1, 3, 3, 4, 1, 5, 1}) + step({1, 1, 3, 10, 0, 1});
  return {put, put + read, put + read + copy, put + copy + step({1, 0, 1}) + read,
          put + step({1, 3, 3, 10, 5, 1}) + step({8, 2, 0})};
}
