#include "runtime/actor/ref.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "runtime/actor/borrowed_origin.h"
#include "runtime/actor/lending.h"
#include "runtime/actor/math_threads.h"
#include "runtime/store/large_copy.h"

namespace volador {
namespace {

// Kind of the data that follows in the extension.
enum class Carried : uint8_t { kInline = 0, kStored = 1 };
constexpr int kRebuildsMax = 10;  // Limit for one object that is lost repeatedly.
// Kind, node, writer, number; followed by the node's address and, after a 0, the owner for reconstruction.
constexpr size_t kStoredBytes = 1 + 16 + 8 + 8;

void append_number(std::string& out, uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift);
}
uint64_t number_at(std::string_view bytes, size_t at) {
  uint64_t number = 0;
  for (size_t i = 0; i < 8; ++i) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  return number;
}

// An object under reconstruction.
class Made {
 public:
  void set(Result<std::shared_ptr<const StoredObject>> result) {
    const std::lock_guard<std::mutex> hold(mutex_);
    result_ = std::move(result);
    changed_.notify_all();
  }
  Result<std::shared_ptr<const StoredObject>> wait(
      const std::optional<std::chrono::steady_clock::time_point>& deadline) {
    std::unique_lock<std::mutex> hold(mutex_);
    if (internal::wait_lending(changed_, hold, deadline, [this] { return result_.has_value(); })) return *result_;
    return make_error(ErrorCode::kTimeout, "the object was lost and is being made again by its task: wait longer");
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<std::shared_ptr<const StoredObject>>> result_;
};

}  // namespace

Result<ObjectBytes> AnyRef::bytes(std::optional<std::chrono::nanoseconds> timeout) const {
  if (inlined_) return ObjectBytes{std::as_bytes(std::span(*inlined_)), inlined_};
  if (!stored_)
    return make_error(ErrorCode::kInvalidArgument, "this Ref refers to nothing: it was not made by volador::put");
  const auto deadline = std::chrono::steady_clock::now() + timeout.value_or(std::chrono::nanoseconds(0));
  auto object = newest(stored_);
  for (int tries = 0;; ++tries) {
    if (timeout) timeout = std::max(deadline - std::chrono::steady_clock::now(), std::chrono::nanoseconds(0));
    auto view = object->view(timeout);
    if (view) return ObjectBytes{view->bytes, std::move(view->owner)};
    const auto origin = object->origin();
    if (view.error().code != ErrorCode::kObjectLost || !origin.made_by || tries == kRebuildsMax)
      return make_error(std::move(view).error());
    const auto made = std::make_shared<Made>();
    origin.made_by->rebuild(
        origin.index, 1, [made](Result<std::shared_ptr<const StoredObject>> result) { made->set(std::move(result)); });
    auto again = made->wait(timeout ? std::optional(deadline) : std::nullopt);
    if (!again)
      return make_error(again.error().code == ErrorCode::kTimeout
                            ? again.error()
                            : Error{ErrorCode::kObjectLost, view.error().message + "; " + again.error().message});
    object->set_replacement(*again);
    object = std::move(*again);
  }
}

void AnyRef::when_ready(std::function<void()> call) const {
  const auto store = stored_ != nullptr && Session::has_current() ? Session::current()->objects() : nullptr;
  if (!store) return call();
  store->when_ready(*stored_, std::move(call));
}

void AnyRef::free() const {
  const auto store = stored_ != nullptr && Session::has_current() ? Session::current()->objects() : nullptr;
  if (!store) return;
  const auto last = newest(stored_);
  stored_->set_origin({});  // Not reconstructed again.
  last->set_origin({});
  store->free(*last);
}

Result<AnyRef> AnyRef::put(std::span<const std::byte> bytes, const PutSite& site, RefScope* contents) {
  if (bytes.size() > kInlineObjectBytesMax || (contents != nullptr && !contents->empty()))
    return put_stored(bytes, site, contents);
  return AnyRef(std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Result<AnyRef> AnyRef::put_stored(std::span<const std::byte> bytes, const PutSite& site, RefScope* contents) {
  if (contents != nullptr && contents->objects().size() + contents->actors().size() > kObjectContentsMax) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("this value has {} references and handles in it; an object holds at most {}: put it in parts",
                    contents->objects().size() + contents->actors().size(), kObjectContentsMax));
  }
  const auto store = Session::current()->objects();
  if (!store) return make_error(ErrorCode::kUnavailable, "this process has no object store");
  auto draft = store->create(bytes.size());
  if (!draft && bytes.size() <= kInlineObjectBytesMax && draft.error().code == ErrorCode::kUnavailable) {
    // No worker counts the references: they are held as long as this process has copies of the reference.
    using Kept = std::pair<const std::string, std::shared_ptr<const void>>;
    const auto kept = std::make_shared<const Kept>(
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), contents->take());
    return AnyRef(std::shared_ptr<const std::string>(kept, &kept->first));
  }
  if (!draft) return make_error(std::move(draft).error());
  copy_large((*draft)->space().data(), bytes, bytes.size() < kParallelCopyBytesMin ? 1 : granted_threads());
  auto sealed = store->seal(std::move(*draft), site, contents);
  if (!sealed) return make_error(std::move(sealed).error());
  return AnyRef(std::move(*sealed));
}

void volador_encode(Encoder& encoder, const AnyRef& ref) {
  std::string out;
  if (ref.stored_) {
    const auto stored = newest(ref.stored_);
    const ObjectKey& key = stored->key();
    out += static_cast<char>(Carried::kStored);
    out += raw(key.node);
    append_number(out, key.writer);
    append_number(out, key.number);
    out += stored->address();
    if (const auto origin = stored->origin(); origin.made_by && !origin.made_by->owner().empty()) {
      out += '\0';
      out += origin.made_by->owner();
      keep_origin(*stored);
    }
    if (RefScope* scope = RefScope::current()) scope->add(stored);
  } else if (ref.inlined_) {
    out.reserve(1 + ref.inlined_->size());
    out += static_cast<char>(Carried::kInline);
    out += *ref.inlined_;
  }
  encoder.extension(AnyRef::kWireType, out);
}

void volador_decode(Decoder& decoder, AnyRef& ref) {
  ref = AnyRef();
  const std::string_view bytes = decoder.extension(AnyRef::kWireType);
  if (decoder.failed() || bytes.empty()) return;
  if (static_cast<Carried>(bytes[0]) == Carried::kInline) {
    ref = AnyRef(std::make_shared<const std::string>(bytes.substr(1)));
    return;
  }
  if (static_cast<Carried>(bytes[0]) != Carried::kStored || bytes.size() < kStoredBytes)
    return decoder.fail("a reference to an object");
  const ObjectKey key{id_from_raw<NodeId>(bytes.substr(1, 16)), number_at(bytes, 17), number_at(bytes, 25)};
  const auto store = Session::has_current() ? Session::current()->objects() : nullptr;
  if (!store)
    return decoder.fail(
        Error{ErrorCode::kUnavailable, "a reference to an object came, and this process has no object store"});
  RefScope* scope = RefScope::current();
  const bool claims = scope != nullptr && scope->claims(key);
  const std::string_view address = bytes.substr(kStoredBytes, bytes.find('\0', kStoredBytes) - kStoredBytes);
  const std::string_view owner = bytes.substr(std::min(bytes.size(), kStoredBytes + address.size() + 1));
  ref = AnyRef(store->acquire(key, std::string(address), claims));
  ref.stored_->find_origin();
  if (!owner.empty() && !ref.stored_->origin().made_by && owner != Session::current()->name_as_owner())
    ref.stored_->set_origin({borrow_origin(owner, key), 0});
  if (scope != nullptr) scope->receive(ref.stored_, claims);
}

void internal::ReadScope::keep_until_counted() const {
  const auto store = Session::has_current() ? Session::current()->objects() : nullptr;
  if (!store) return;
  for (const auto& inner : received_) store->when_ready(*inner, [object = object_] {});
}

std::string place_of(const std::source_location& place) {
  const std::string_view path = place.file_name();
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1)) + ":" +
         std::to_string(place.line());
}

namespace registration {

AnyRef put_argument(std::span<const std::byte> bytes, std::string_view type, RefScope* contents) {
  if (RefScope::current() == nullptr || !Session::has_current() || !Session::current()->objects()) return {};
  return AnyRef::put(bytes, {type, "argument"}, contents).value_or(AnyRef());
}

void lend_references(const RefScope& scope, std::string& answer) {
  const auto session = Session::current();
  for (const ActorId& actor : scope.actors()) session->lend(actor);
  const auto store = scope.objects().empty() ? nullptr : session->objects();
  for (const auto& object : scope.objects()) store->lend(*object);
  codec::mark_references(answer);
}

}  // namespace registration
}  // namespace volador
