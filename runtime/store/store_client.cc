#include "runtime/store/store_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/log.h"
#include "runtime/net/fd_passing.h"
#include "runtime/net/socket.h"
#include "runtime/store/store_client_parts.h"

namespace volador {
namespace {

using std::chrono::milliseconds;

constexpr size_t kSmallStep = size_t{64} << 10;
constexpr auto kKeepEmpty = milliseconds(10'000);  // How long an empty arena is kept: its pages are warm.
constexpr size_t kNamesAMessage = 500;             // References per message.
constexpr auto kConnectPatience = milliseconds(10'000);

}  // namespace

// ---- reading ----

void StoreClient::Object::end_reading() const {
  if (--readings_ > 0 || wanted_ == 0) return;
  protocol::ToStore message;
  auto& one = *message.mutable_yield()->add_objects();
  *one.mutable_name() = to_message(key_);
  one.set_serial(std::exchange(wanted_, 0));
  mapping_.reset();
  away_ = true;
  if (generation_ == store_->generation) store_->send(message);
}

Result<ObjectView> StoreClient::Object::view(std::optional<std::chrono::nanoseconds> timeout) const {
  const auto self = shared_from_this();
  std::optional<std::chrono::steady_clock::time_point> deadline;
  if (timeout) deadline = std::chrono::steady_clock::now() + *timeout;
  Impl::Lock lock(store_->mutex);
  ++readings_;  // From here on it stays in memory once it has arrived.
  std::optional<Error> failed;
  while (mapping_ == nullptr || error_) {
    if (!error_ && away_ && asked_ == nullptr) store_->ask_place(*this);
    if (error_) failed = error_;
    if (failed) break;
    const auto question = asked_;
    const auto there = [&] {
      return mapping_ != nullptr || error_ || (question == nullptr ? away_ : question->answered);
    };
    if (!deadline) {
      store_->changed.wait(lock, there);
    } else if (!store_->changed.wait_until(lock, *deadline, there)) {
      failed = Error{ErrorCode::kTimeout,
                     fmt::format("object {} has not come yet; it is still on its way: wait longer", to_string(key_))};
    }
    if (question != nullptr && question->error) failed = question->error;
    if (failed) break;
  }
  if (failed) {
    end_reading();
    return make_error(std::move(*failed));
  }
  read_lately_ = true;
  const auto bytes = mapping_->view().subspan(offset_, bytes_);
  lock.unlock();
  return ObjectView{bytes, std::make_shared<const Reading>(self)};
}

// ---- the connection ----

void StoreClient::Impl::send(const protocol::ToStore& message, std::span<const int> fds) {
  if (!socket) return;
  const auto sent = net::send_message(socket.get(), message.SerializeAsString(), fds);
  // The reader thread detects its end.
  if (!sent) log::debug("objects", "the object store cannot be told", {{"error", sent.error().message}});
}

Result<void> StoreClient::Impl::connect(Lock& lock) {
  if (closed) return make_error(ErrorCode::kUnavailable, "this process has left the cluster");
  if (connected) return {};
  if (!socket) {
    auto path = options.find_store();
    if (!path) return make_error(std::move(path).error());
    auto address_of = net::unix_address(*path);
    if (!address_of) return make_error(std::move(address_of).error());
    net::UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!made ||
        ::connect(made.get(), reinterpret_cast<const sockaddr*>(&address_of->storage), address_of->length) != 0) {
      const Error error{ErrorCode::kUnavailable, fmt::format("object store {}: {}; is the worker of this node running?",
                                                             *path, std::strerror(errno))};
      lock.unlock();
      if (options.on_lost) options.on_lost();
      lock.lock();
      return make_error(error);
    }
    net::tune_socket(made.get(), false);
    if (reader.joinable()) {  // Reader of a lost connection; it ends by itself.
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
  if (!connected)
    return make_error(broken.value_or(Error{ErrorCode::kUnavailable, "this process has left the cluster"}));
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
    if (message && !parsed.ParseFromString(message->bytes))
      message = make_error(ErrorCode::kInternal, "the object store sent what is no message");
    if (!message) say_lost();
    std::vector<std::shared_ptr<const Object>> last;
    std::vector<std::function<void()>> due;
    std::vector<std::shared_ptr<const void>> no_longer_kept;
    {
      const std::lock_guard lock(mutex);
      if (message) {
        on_message(parsed, std::move(message->fds));
      } else {
        lose(message.error());
      }
      last.swap(unlocked);
      due.swap(calls);
      no_longer_kept.swap(unkept);
    }
    for (const auto& call : due) call();
    if (!message) return;
  }
}

void StoreClient::Impl::say_lost() {
  {
    const std::lock_guard lock(mutex);
    if (closed) return;
  }
  if (options.on_lost) options.on_lost();
}

// Existing views stay readable; all other state of this connection ends.
void StoreClient::Impl::lose(const Error& error) {
  broken = Error{ErrorCode::kUnavailable, fmt::format("the object store of this node has ended ({})", error.message)};
  socket.reset();
  connected = false;
  unsettled = 0;
  for (auto& [id, question] : questions) {
    question->answered = true;
    question->error = broken;
    if (auto object = question->object.lock()) {
      if (!question->locates) object->error_ = broken;
      object->asked_.reset();
      object->come();
      unlocked.push_back(std::move(object));
    }
  }
  questions.clear();
  rooms.clear();
  for (const auto& [key, known] : objects) {
    auto object = known.lock();
    if (object == nullptr) continue;
    if (object->mapping_ == nullptr && !object->error_) object->error_ = broken;
    unlocked.push_back(std::move(object));
  }
  for (auto& [number, pins] : kept) unkept.push_back(std::move(pins));
  kept.clear();
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
      if (message.welcome().arena_bytes_max() > 0)
        arena_bytes_max =
            std::min(kArenaBytesMax, round_up(static_cast<size_t>(message.welcome().arena_bytes_max()), kSmallStep));
      arena_bytes = std::min(kFirstArenaBytes, arena_bytes_max);
      connected = true;
      break;
    case protocol::FromStore::kReserved:
      on_reserved(message.reserved());
      break;
    case protocol::FromStore::kLocated:
      on_located(message.located(), std::move(fds));
      break;
    case protocol::FromStore::kFreed:
      on_freed(message.freed());
      break;
    case protocol::FromStore::kReclaim:
      on_reclaim(message.reclaim());
      break;
    case protocol::FromStore::kGone:
      mapped.erase({message.gone().writer(), message.gone().arena()});
      break;
    case protocol::FromStore::kKept:
      if (auto pins = kept.extract(message.kept().number()); !pins.empty()) unkept.push_back(std::move(pins.mapped()));
      break;
    case protocol::FromStore::kTrim:
      drop_empty(std::chrono::steady_clock::time_point::max());
      break;
    default:
      break;
  }
  changed.notify_all();
}

void StoreClient::Impl::on_reserved(const protocol::Reserved& reserved) {
  auto found = questions.extract(reserved.request());
  if (found.empty()) return;
  Question& question = *found.mapped();
  rooms.erase(reserved.request());
  if (question.range) {  // The process has found room meanwhile.
    if (reserved.error_code() != 0) return;
    protocol::ToStore back;
    back.mutable_drop_arena()->set_bytes(static_cast<int64_t>(question.arena_bytes));
    return send(back);
  }
  question.answered = true;
  if (reserved.error_code() != 0)
    question.error = Error{error_code_from(int64_t{reserved.error_code()}), reserved.error()};
}

void StoreClient::Impl::on_located(const protocol::Located& located, std::vector<net::UniqueFd> fds) {
  Result<std::shared_ptr<Mapping>> arena = std::shared_ptr<Mapping>();
  if (located.error_code() != 0) {
    arena = make_error(error_code_from(int64_t{located.error_code()}), located.error());
  } else if (located.away()) {
    // No place.
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
  if (arena && !located.away() &&
      (*arena == nullptr || located.offset() < 0 || located.bytes() < 0 ||
       static_cast<size_t>(located.offset()) > (*arena)->bytes() ||
       static_cast<size_t>(located.bytes()) > (*arena)->bytes() - static_cast<size_t>(located.offset()))) {
    arena = make_error(ErrorCode::kInternal, "the object store named a place that does not exist");
  }
  auto found = questions.extract(located.request());
  if (found.empty()) return;
  Question& question = *found.mapped();
  question.answered = true;
  if (!question.locates && unsettled > 0) --unsettled;
  const auto object = question.object.lock();
  if (object == nullptr) return;
  unlocked.push_back(object);
  if (question.locates) object->asked_.reset();
  if (!arena && question.locates) {
    question.error = arena.error();
  } else if (!arena) {
    object->error_ = arena.error();
    objects.erase(object->key());
  } else {
    object->mapping_ = *arena;
    object->away_ = located.away();
    object->offset_ = static_cast<size_t>(located.offset());
    object->bytes_ = static_cast<size_t>(located.bytes());
  }
  object->come();
}

// ---- public interface ----

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

Result<std::shared_ptr<const StoredObject>> StoreClient::seal(std::unique_ptr<ObjectDraft> draft, const PutSite& site,
                                                              RefScope* contents) {
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
  put.set_site(std::string(site.type));
  put.set_place(std::string(site.place));
  put.set_contents(contents != nullptr && !contents->empty());
  impl_->send(message);
  if (put.contents()) impl_->tell_contents(key.number, *contents);
  made.sealed_ = true;
  return object;
}

// References are counted before this process can release its own; the head is notified of handles separately.
void StoreClient::Impl::tell_contents(uint64_t number, RefScope& contents) {
  protocol::ToStore message;
  size_t in_message = 0;
  const auto make_room = [&] {
    if (in_message++ < kNamesAMessage) return;
    send(message);
    message.Clear();
    in_message = 1;
  };
  for (const auto& object : contents.objects()) {
    make_room();
    protocol::ObjectName& name = *message.mutable_contents()->add_objects();
    name = to_message(object->key());
    if (object->key().node != node) name.set_address(object->address());
    message.mutable_contents()->set_number(number);
  }
  for (const ActorId& actor : contents.actors()) {
    make_room();
    message.mutable_contents()->add_actors(raw(actor));
    message.mutable_contents()->set_number(number);
  }
  message.mutable_contents()->set_number(number);
  message.mutable_contents()->set_last(true);
  send(message);
  if (!contents.actors().empty()) kept[number] = contents.take();
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
  if (known != nullptr) {  // Already counted: only the acceptance had to be sent.
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

void StoreClient::free(const StoredObject& object) {
  const Impl::Lock lock(impl_->mutex);
  protocol::ToStore message;
  *message.mutable_free()->mutable_name() = to_message(object.key());
  if (static_cast<const Object&>(object).generation_ == impl_->generation) impl_->send(message);
}

void StoreClient::when_ready(const StoredObject& object, std::function<void()> call) {
  const auto& mine = static_cast<const Object&>(object);
  {
    const std::lock_guard lock(mine.store_->mutex);
    if (!mine.has_come()) {
      mine.waiting_.push_back(std::move(call));
      return;
    }
  }
  call();
}

void StoreClient::settle() {
  Impl::Lock lock(impl_->mutex);
  impl_->changed.wait(lock, [this] { return impl_->unsettled == 0 || !impl_->connected; });
}

}  // namespace volador
