#include "runtime/store/store_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <thread>
#include <unordered_map>
#include <utility>

#include "runtime/log.h"
#include "runtime/net/fd_passing.h"
#include "runtime/net/socket.h"
#include "runtime/protocol/store.pb.h"
#include "runtime/store/arena.h"
#include "runtime/store/free_list.h"
#include "runtime/store/object_name.h"

namespace volador {
namespace {

using std::chrono::milliseconds;

constexpr size_t kFirstArenaBytes = size_t{4} << 20;
constexpr size_t kArenaBytesMax = size_t{64} << 20;  // Of those that hold many objects; a larger object has one to itself.
constexpr size_t kArenaStep = size_t{2} << 20;
constexpr auto kKeepEmpty = milliseconds(10'000);  // An arena without objects: its pages are warm for the next one.
constexpr auto kConnectPatience = milliseconds(10'000);

size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

}  // namespace

// Shared by the client, its thread, and the objects that may outlive it.
struct StoreClient::Impl : std::enable_shared_from_this<StoreClient::Impl> {
  explicit Impl(StoreClientOptions given) : options(std::move(given)) {}

  struct OwnArena {
    OwnArena(uint64_t its_number, Arena its_memory) : number(its_number), memory(std::move(its_memory)), ranges(memory.mapping->bytes()) {}
    const uint64_t number;
    const Arena memory;
    FreeList ranges;
    std::chrono::steady_clock::time_point empty_since{};
  };
  struct Range {
    uint64_t arena = 0;
    size_t offset = 0;
    size_t bytes = 0;
    std::shared_ptr<Mapping> mapping;
  };
  // What is asked of the store.
  struct Question {
    bool answered = false;
    std::optional<Error> error;
    std::weak_ptr<const Object> object;  // Of Acquire.
  };

  const StoreClientOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  net::UniqueFd socket;
  bool connected = false;   // The welcome came.
  bool closed = false;      // For good.
  std::optional<Error> broken;
  uint64_t generation = 0;  // Of the connection: objects of an earlier one are not given back to this one.
  NodeId node;
  uint64_t writer = 0;
  std::string address;
  uint64_t next_request = 1;
  uint64_t next_number = 1;
  uint64_t next_arena = 1;
  size_t arena_bytes = kFirstArenaBytes;
  std::map<uint64_t, std::unique_ptr<OwnArena>> arenas;
  std::unordered_map<uint64_t, Range> written;  // Own objects that somebody refers to.
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<Mapping>> mapped;  // Others' arenas.
  std::unordered_map<ObjectKey, std::weak_ptr<const Object>> objects;
  std::unordered_map<uint64_t, std::shared_ptr<Question>> questions;
  size_t unsettled = 0;  // Acquisitions without an answer.
  std::vector<std::shared_ptr<const Object>> unlocked;  // To be let go without the lock: their ends take it.
  std::thread reader;

  using Lock = std::unique_lock<std::mutex>;

  // The lock is held, so that messages leave in the order in which things happened.
  void send(const protocol::ToStore& message, std::span<const int> fds = {}) {
    if (!socket) return;
    const auto sent = net::send_message(socket.get(), message.SerializeAsString(), fds);
    if (!sent) log::debug("objects", "the object store cannot be told", {{"error", sent.error().message}});  // Its end is noticed by the reader.
  }

  Result<void> connect(Lock& lock);
  void read();
  void on_message(const protocol::FromStore& message, std::vector<net::UniqueFd> fds);
  void on_located(const protocol::Located& located, std::vector<net::UniqueFd> fds);
  void on_freed(const protocol::Freed& freed);
  void lose(const Error& error);
  void give_back(uint64_t arena, size_t offset);
  void drop_empty(std::chrono::steady_clock::time_point unused_since);
  std::optional<Range> allocate(size_t bytes);
  Result<Range> add_arena(Lock& lock, size_t bytes);
  void release(const ObjectKey& key, uint64_t its_generation);
};

class StoreClient::Object final : public StoredObject {
 public:
  Object(std::shared_ptr<Impl> store, const ObjectKey& key, std::string address, uint64_t generation)
      : store_(std::move(store)), key_(key), address_(std::move(address)), generation_(generation) {}
  ~Object() override { store_->release(key_, generation_); }

  const ObjectKey& key() const override { return key_; }
  const std::string& address() const override { return address_; }
  Result<std::span<const std::byte>> view(std::optional<std::chrono::nanoseconds> timeout) const override {
    Impl::Lock lock(store_->mutex);
    const auto there = [this] { return mapping_ != nullptr || error_.has_value(); };
    if (!timeout) {
      store_->changed.wait(lock, there);
    } else if (!store_->changed.wait_for(lock, *timeout, there)) {
      return make_error(ErrorCode::kTimeout, fmt::format("object {} has not come yet; it is still on its way: wait longer", to_string(key_)));
    }
    if (error_) return make_error(*error_);
    return mapping_->view().subspan(offset_, bytes_);
  }

 private:
  friend struct Impl;
  friend class StoreClient;
  const std::shared_ptr<Impl> store_;
  const ObjectKey key_;
  const std::string address_;
  const uint64_t generation_;
  // Under the store's mutex; set once.
  mutable std::shared_ptr<Mapping> mapping_;
  mutable size_t offset_ = 0;
  mutable size_t bytes_ = 0;
  mutable std::optional<Error> error_;
};

class StoreClient::Draft final : public ObjectDraft {
 public:
  Draft(std::shared_ptr<Impl> store, Impl::Range range, uint64_t generation) : store_(std::move(store)), range_(std::move(range)), generation_(generation) {}
  ~Draft() override {
    const std::lock_guard lock(store_->mutex);
    if (!sealed_ && generation_ == store_->generation) store_->give_back(range_.arena, range_.offset);
  }
  std::span<std::byte> space() const override { return {range_.mapping->data() + range_.offset, range_.bytes}; }

 private:
  friend class StoreClient;
  const std::shared_ptr<Impl> store_;
  const Impl::Range range_;
  const uint64_t generation_;
  bool sealed_ = false;
};

// ---- the connection ----

Result<void> StoreClient::Impl::connect(Lock& lock) {
  if (closed) return make_error(ErrorCode::kUnavailable, "this process has left the cluster");
  if (connected) return {};
  if (!socket) {
    auto path = options.find_store();
    if (!path) return make_error(std::move(path).error());
    auto address_of = net::unix_address(*path);
    if (!address_of) return make_error(std::move(address_of).error());
    net::UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!made || ::connect(made.get(), reinterpret_cast<const sockaddr*>(&address_of->storage), address_of->length) != 0) {
      return make_error(ErrorCode::kUnavailable, fmt::format("object store {}: {}; is the worker of this node running?", *path, std::strerror(errno)));
    }
    net::tune_socket(made.get(), false);
    if (reader.joinable()) {  // Of a connection that was lost; it ends by itself.
      std::thread old = std::move(reader);
      lock.unlock();
      old.join();
      lock.lock();
      if (closed || socket) return connect(lock);
    }
    socket = std::move(made);
    broken.reset();
    ++generation;
    protocol::ToStore hello;
    hello.mutable_hello()->set_pid(::getpid());
    hello.mutable_hello()->set_who(options.who);
    send(hello);
    reader = std::thread([self = shared_from_this()] { self->read(); });
  }
  if (!changed.wait_for(lock, kConnectPatience, [this] { return connected || closed || !socket; })) {
    return make_error(ErrorCode::kUnavailable, "the object store of this node does not answer");
  }
  if (!connected) return make_error(broken.value_or(Error{ErrorCode::kUnavailable, "this process has left the cluster"}));
  return {};
}

void StoreClient::Impl::read() {
  const int fd = socket.get();
  while (true) {
    pollfd wait{fd, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(kKeepEmpty.count()));
    if (ready == 0) {
      const std::lock_guard lock(mutex);
      drop_empty(std::chrono::steady_clock::now() - kKeepEmpty);
      continue;
    }
    auto message = net::recv_message(fd);
    protocol::FromStore parsed;
    if (message && !parsed.ParseFromString(message->bytes)) message = make_error(ErrorCode::kInternal, "the object store sent what is no message");
    std::vector<std::shared_ptr<const Object>> last;
    const std::lock_guard lock(mutex);
    if (!message) {
      lose(message.error());
      last.swap(unlocked);
      return;
    }
    on_message(parsed, std::move(message->fds));
    last.swap(unlocked);
  }
}

// Views that exist stay readable; everything else of this connection has ended.
void StoreClient::Impl::lose(const Error& error) {
  broken = Error{ErrorCode::kUnavailable, fmt::format("the object store of this node has ended ({})", error.message)};
  socket.reset();
  connected = false;
  unsettled = 0;
  for (auto& [id, question] : questions) {
    question->answered = true;
    question->error = broken;
    if (auto object = question->object.lock()) {
      object->error_ = broken;
      unlocked.push_back(std::move(object));
    }
  }
  questions.clear();
  arenas.clear();
  written.clear();
  mapped.clear();
  objects.clear();
  arena_bytes = kFirstArenaBytes;
  next_number = 1;
  ++generation;
  changed.notify_all();
}

void StoreClient::Impl::on_message(const protocol::FromStore& message, std::vector<net::UniqueFd> fds) {
  switch (message.kind_case()) {
    case protocol::FromStore::kWelcome:
      node = id_from_raw<NodeId>(message.welcome().node_id());
      writer = message.welcome().writer();
      address = message.welcome().address();
      connected = true;
      break;
    case protocol::FromStore::kReserved: {
      auto found = questions.extract(message.reserved().request());
      if (found.empty()) break;
      found.mapped()->answered = true;
      if (message.reserved().error_code() != 0) {
        found.mapped()->error = Error{error_code_from(int64_t{message.reserved().error_code()}), message.reserved().error()};
      }
      break;
    }
    case protocol::FromStore::kLocated: on_located(message.located(), std::move(fds)); break;
    case protocol::FromStore::kFreed: on_freed(message.freed()); break;
    case protocol::FromStore::kGone: mapped.erase({message.gone().writer(), message.gone().arena()}); break;
    case protocol::FromStore::kTrim: drop_empty(std::chrono::steady_clock::time_point::max()); break;
    default: break;
  }
  changed.notify_all();
}

void StoreClient::Impl::on_located(const protocol::Located& located, std::vector<net::UniqueFd> fds) {
  Result<std::shared_ptr<Mapping>> arena = std::shared_ptr<Mapping>();
  if (located.error_code() != 0) {
    arena = make_error(error_code_from(int64_t{located.error_code()}), located.error());
  } else if (located.writer() == writer) {
    const auto own = arenas.find(located.arena());
    if (own != arenas.end()) arena = own->second->memory.mapping;
  } else {
    auto& known = mapped[{located.writer(), located.arena()}];
    if (known == nullptr && fds.size() == 1) {
      arena = map_arena(fds[0].get(), static_cast<size_t>(located.arena_bytes()));
      if (arena) known = *arena;
    } else {
      arena = known;
    }
  }
  if (arena && (*arena == nullptr || located.offset() < 0 || located.bytes() < 0 || static_cast<size_t>(located.offset()) > (*arena)->bytes() ||
                static_cast<size_t>(located.bytes()) > (*arena)->bytes() - static_cast<size_t>(located.offset()))) {
    arena = make_error(ErrorCode::kInternal, "the object store named a place that does not exist");
  }
  auto found = questions.extract(located.request());
  if (found.empty()) return;
  if (unsettled > 0) --unsettled;
  const auto object = found.mapped()->object.lock();
  if (object == nullptr) return;
  unlocked.push_back(object);
  if (!arena) {
    object->error_ = arena.error();
    objects.erase(object->key());
  } else {
    object->mapping_ = *arena;
    object->offset_ = static_cast<size_t>(located.offset());
    object->bytes_ = static_cast<size_t>(located.bytes());
  }
}

// ---- arenas ----

void StoreClient::Impl::on_freed(const protocol::Freed& freed) {
  for (const uint64_t number : freed.numbers()) {
    const auto range = written.extract(number);
    if (!range.empty()) give_back(range.mapped().arena, range.mapped().offset);
  }
}

void StoreClient::Impl::give_back(uint64_t arena, size_t offset) {
  const auto found = arenas.find(arena);
  if (found == arenas.end()) return;
  found->second->ranges.free(offset);
  if (found->second->ranges.is_empty()) found->second->empty_since = std::chrono::steady_clock::now();
}

void StoreClient::Impl::drop_empty(std::chrono::steady_clock::time_point unused_since) {
  for (auto arena = arenas.begin(); arena != arenas.end();) {
    if (!arena->second->ranges.is_empty() || arena->second->empty_since > unused_since) {
      ++arena;
      continue;
    }
    protocol::ToStore drop;
    drop.mutable_drop_arena()->set_arena(arena->first);
    send(drop);
    arena = arenas.erase(arena);
  }
}

std::optional<StoreClient::Impl::Range> StoreClient::Impl::allocate(size_t bytes) {
  for (auto& [number, arena] : arenas) {
    if (const auto offset = arena->ranges.allocate(bytes)) return Range{number, *offset, bytes, arena->memory.mapping};
  }
  return std::nullopt;
}

Result<StoreClient::Impl::Range> StoreClient::Impl::add_arena(Lock& lock, size_t bytes) {
  const size_t size = bytes > arena_bytes / 2 ? round_up(bytes, kArenaStep) : arena_bytes;
  const uint64_t request = next_request++;
  const uint64_t its_generation = generation;
  const auto question = std::make_shared<Question>();
  questions.emplace(request, question);
  protocol::ToStore reserve;
  reserve.mutable_reserve()->set_request(request);
  reserve.mutable_reserve()->set_bytes(static_cast<int64_t>(size));
  send(reserve);
  changed.wait(lock, [&] { return question->answered; });
  if (question->error) return make_error(*question->error);
  auto made = make_arena(size);
  if (its_generation != generation) return make_error(ErrorCode::kUnavailable, "the object store of this node has ended");
  protocol::ToStore message;
  if (!made) {
    message.mutable_drop_arena()->set_bytes(static_cast<int64_t>(size));
    send(message);
    return make_error(std::move(made).error());
  }
  const uint64_t number = next_arena++;
  message.mutable_add_arena()->set_arena(number);
  message.mutable_add_arena()->set_bytes(static_cast<int64_t>(size));
  const int fd = made->fd.get();
  send(message, std::span(&fd, 1));
  made->fd.reset();  // The store has it.
  if (size == arena_bytes) arena_bytes = std::min(2 * arena_bytes, kArenaBytesMax);
  auto& arena = arenas[number];
  arena = std::make_unique<OwnArena>(number, std::move(*made));
  return Range{number, *arena->ranges.allocate(bytes), bytes, arena->memory.mapping};
}

void StoreClient::Impl::release(const ObjectKey& key, uint64_t its_generation) {
  const std::lock_guard lock(mutex);
  if (const auto known = objects.find(key); known != objects.end() && known->second.expired()) objects.erase(known);
  if (its_generation != generation) return;
  protocol::ToStore message;
  *message.mutable_release()->mutable_name() = to_message(key);
  send(message);
}

// ---- the store's face ----

StoreClient::StoreClient(StoreClientOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}

StoreClient::~StoreClient() {
  std::thread reader;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->closed = true;
    if (impl_->socket) ::shutdown(impl_->socket.get(), SHUT_RDWR);
    reader = std::move(impl_->reader);
    impl_->changed.notify_all();
  }
  if (reader.joinable()) reader.join();
}

Result<std::unique_ptr<ObjectDraft>> StoreClient::create(size_t bytes) {
  Impl::Lock lock(impl_->mutex);
  VOLADOR_TRY(impl_->connect(lock));
  auto range = impl_->allocate(bytes);
  if (!range) {
    auto added = impl_->add_arena(lock, bytes);
    if (!added) return make_error(std::move(added).error());
    range = std::move(*added);
  }
  return std::make_unique<Draft>(impl_, std::move(*range), impl_->generation);
}

Result<std::shared_ptr<const StoredObject>> StoreClient::seal(std::unique_ptr<ObjectDraft> draft, std::string_view site) {
  auto& made = static_cast<Draft&>(*draft);
  const Impl::Lock lock(impl_->mutex);
  if (made.generation_ != impl_->generation || !impl_->connected) {
    return make_error(impl_->broken.value_or(Error{ErrorCode::kUnavailable, "this process has left the cluster"}));
  }
  const ObjectKey key{impl_->node, impl_->writer, impl_->next_number++};
  const auto object = std::make_shared<const Object>(impl_, key, impl_->address, impl_->generation);
  object->mapping_ = made.range_.mapping;
  object->offset_ = made.range_.offset;
  object->bytes_ = made.range_.bytes;
  impl_->written.emplace(key.number, made.range_);
  impl_->objects[key] = object;
  protocol::ToStore message;
  auto& put = *message.mutable_put();
  put.set_number(key.number);
  put.set_arena(made.range_.arena);
  put.set_offset(static_cast<int64_t>(made.range_.offset));
  put.set_bytes(static_cast<int64_t>(made.range_.bytes));
  put.set_site(std::string(site));
  impl_->send(message);
  made.sealed_ = true;
  return object;
}

std::shared_ptr<const StoredObject> StoreClient::acquire(const ObjectKey& key, const std::string& address, bool claim) {
  Impl::Lock lock(impl_->mutex);
  const auto connected = impl_->connect(lock);
  const auto found = impl_->objects.find(key);
  auto known = found == impl_->objects.end() ? nullptr : found->second.lock();
  if (known != nullptr && !claim) return known;
  const auto object = known != nullptr ? known : std::make_shared<const Object>(impl_, key, address, impl_->generation);
  if (!connected) {
    object->error_ = connected.error();
    return object;
  }
  impl_->objects[key] = object;
  const uint64_t request = impl_->next_request++;
  const auto question = std::make_shared<Impl::Question>();
  if (known == nullptr) question->object = object;
  impl_->questions.emplace(request, question);
  ++impl_->unsettled;
  protocol::ToStore message;
  auto& acquire = *message.mutable_acquire();
  acquire.set_request(request);
  acquire.set_claim(claim);
  auto& name = *acquire.mutable_name();
  name = to_message(key);
  name.set_address(address);
  impl_->send(message);
  if (known != nullptr) {  // It is counted already: only the claim was to be said.
    protocol::ToStore once_less;
    *once_less.mutable_release()->mutable_name() = name;
    impl_->send(once_less);
  }
  return object;
}

void StoreClient::lend(const StoredObject& object) {
  const Impl::Lock lock(impl_->mutex);
  protocol::ToStore message;
  *message.mutable_lend()->mutable_name() = to_message(object.key());
  impl_->send(message);
}

void StoreClient::settle() {
  Impl::Lock lock(impl_->mutex);
  impl_->changed.wait(lock, [this] { return impl_->unsettled == 0 || !impl_->connected; });
}

}  // namespace volador
