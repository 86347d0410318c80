// References to immutable objects that many processes read.
//
//   volador::Ref<std::vector<float>> weights = volador::put(values);
//   auto product = volador::task<&multiply>(weights, 3).submit();     // multiply takes a vector, an Array<float> or a Ref
//
// Small values are stored inside the reference. Larger values, and values that contain references or handles, are
// stored in shared memory of their node, where Array<T> reads them without a copy; other nodes that read them get one
// copy each. An object is freed with its last reference anywhere, including references inside other objects; the same
// holds for actors and handles.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/actor/session.h"
#include "runtime/actor/type_name.h"
#include "runtime/serialize/codec.h"
#include "runtime/store/object_layout.h"
#include "runtime/store/object_store.h"

namespace volador {

// Values up to this size are stored inside their references.
inline constexpr size_t kInlineObjectBytesMax = size_t{16} << 10;

// A type-erased reference. Value type; copies share the object.
class AnyRef {
 public:
  static constexpr int8_t kWireType = 0x56;  // Msgpack extension type.

  AnyRef() = default;
  explicit AnyRef(std::shared_ptr<const std::string> inlined) : inlined_(std::move(inlined)) {}
  explicit AnyRef(std::shared_ptr<const StoredObject> stored) : stored_(std::move(stored)) {}

  bool is_valid() const { return inlined_ != nullptr || stored_ != nullptr; }
  bool is_stored() const { return stored_ != nullptr; }
  const std::shared_ptr<const StoredObject>& stored() const { return stored_; }
  // Waits. Errors as for StoredObject::view; kInvalidArgument: the reference is empty.
  Result<ObjectBytes> bytes(std::optional<std::chrono::nanoseconds> timeout = {}) const;

  // Whether the object is on this node, in memory or on disk, or is lost; always true for inline and empty references.
  bool is_ready() const { return stored_ == nullptr || stored_->is_ready(); }
  // Calls once, on any thread, when is_ready() becomes true.
  void when_ready(std::function<void()> call) const;
  // See volador::free.
  void free() const;

  // `contents`: references and handles in the bytes, if any; they live as long as the object. kStoreFull, kUnavailable;
  // kInvalidArgument: more than kObjectContentsMax of them.
  static Result<AnyRef> put(std::span<const std::byte> bytes, const PutSite& site, RefScope* contents = nullptr);

  friend void volador_encode(Encoder& encoder, const AnyRef& ref);
  friend void volador_decode(Decoder& decoder, AnyRef& ref);

 private:
  static Result<AnyRef> put_stored(std::span<const std::byte> bytes, const PutSite& site, RefScope* contents);

  std::shared_ptr<const std::string> inlined_;
  std::shared_ptr<const StoredObject> stored_;
};

namespace internal {

// Keeps an object alive while its contents are decoded, until the references in it have been counted.
class ReadScope {
 public:
  explicit ReadScope(std::shared_ptr<const StoredObject> object)
      : object_(std::move(object)), scope_(RefScope::Kind::kReadObject, &received_) {}
  ~ReadScope() {
    if (!received_.empty() && object_) keep_until_counted();
  }
  ReadScope(const ReadScope&) = delete;
  ReadScope& operator=(const ReadScope&) = delete;

 private:
  void keep_until_counted() const;

  const std::shared_ptr<const StoredObject> object_;  // Null: inline.
  std::vector<std::shared_ptr<const StoredObject>> received_;
  const RefScope scope_;
};

}  // namespace internal

// Reference to an immutable object of type T. Value type; copies share the object.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(AnyRef ref) : ref_(std::move(ref)) {}

  bool is_valid() const { return ref_.is_valid(); }
  // Waits until the object is readable here. Throws kObjectLost, kStoreFull, kUnavailable. An Array is read in place;
  // other types are copied.
  T get() const { return unwrap(result()); }
  // As get(), but throws kTimeout if `timeout` passes first.
  T get(std::chrono::nanoseconds timeout) const { return unwrap(result(timeout)); }
  Result<T> result(std::optional<std::chrono::nanoseconds> timeout = {}) const {
    auto bytes = ref_.bytes(timeout);
    if (!bytes) return make_error(std::move(bytes).error());
    if constexpr (ObjectLayout<T>::kMayRefer) {
      const internal::ReadScope scope(ref_.stored());
      return ObjectLayout<T>::read(*bytes);
    } else {
      return ObjectLayout<T>::read(*bytes);
    }
  }
  const AnyRef& any() const { return ref_; }

 private:
  static T unwrap(Result<T> result) {
    if (!result) throw Exception(std::move(result).error());
    return std::move(*result);
  }

  AnyRef ref_;
};

template <class T>
void volador_encode(Encoder& encoder, const Ref<T>& ref) {
  volador_encode(encoder, ref.any());
}
template <class T>
void volador_decode(Decoder& decoder, Ref<T>& ref) {
  AnyRef any;
  volador_decode(decoder, any);
  ref = Ref<T>(std::move(any));
}

// Returns "train.cc:41".
std::string place_of(const std::source_location& place);

namespace internal {

// `contents`: the references in the value after writing; null: the type has none.
template <class T>
Ref<T> put_value(const T& value, const std::source_location& place, RefScope* contents) {
  auto ref = ObjectLayout<T>::write(value, [&place, contents](std::span<const std::byte> bytes) {
    const bool stored = bytes.size() > kInlineObjectBytesMax || (contents != nullptr && !contents->empty());
    return AnyRef::put(bytes, {type_name<T>(), stored ? place_of(place) : std::string()}, contents);
  });
  if (!ref) throw Exception(std::move(ref).error());
  return Ref<T>(std::move(*ref));
}

}  // namespace internal

// Stores a value. Waits for room if the store is full and cannot spill fast enough. Throws kStoreFull (names the
// largest holders), kUnavailable (a large value, and no worker on this machine). `place` is shown in `volador memory`.
template <class T>
Ref<T> put(const T& value, const std::source_location& place = std::source_location::current()) {
  if constexpr (ObjectLayout<T>::kMayRefer) {
    RefScope contents(RefScope::Kind::kSend);
    return internal::put_value(value, place, &contents);
  } else {
    return internal::put_value(value, place, nullptr);
  }
}

namespace registration {

template <class T>
inline constexpr bool is_ref = false;
template <class T>
inline constexpr bool is_ref<Ref<T>> = true;
template <>
inline constexpr bool is_ref<AnyRef> = true;

// Whether a result of this type can contain references, as far as standard containers and tuples show.
template <class T>
inline constexpr bool brings_refs = is_ref<T>;
template <class T, class A>
inline constexpr bool brings_refs<std::vector<T, A>> = brings_refs<T>;
template <class T>
inline constexpr bool brings_refs<std::optional<T>> = brings_refs<T>;
template <class K, class V>
inline constexpr bool brings_refs<std::map<K, V>> = brings_refs<V>;
template <class... T>
inline constexpr bool brings_refs<std::tuple<T...>> = (brings_refs<T> || ...);
template <class A, class B>
inline constexpr bool brings_refs<std::pair<A, B>> = brings_refs<A> || brings_refs<B>;

// Transfers the references in a reply: they stay until the receiver accepts them.
void lend_references(const RefScope& scope, std::string& answer);

// Encodes the result of a method or function.
template <class R>
std::string encode_answer(const R& value) {
  const RefScope scope(RefScope::Kind::kSend);
  std::string bytes = to_bytes<R>(value);
  if (!scope.empty()) lend_references(scope, bytes);
  return bytes;
}

// Accepts the references in a reply; returns their holder until the reply is read, or null if there are none.
// `objects`: receives the referenced objects.
template <class Value>
std::shared_ptr<const void> claim_objects(const Result<std::string>& answer,
                                          std::vector<std::shared_ptr<const StoredObject>>* objects) {
  if (!answer || !codec::carries_references(*answer)) return nullptr;
  const RefScope scope(RefScope::Kind::kReceiveAnswer, objects);
  auto value = from_bytes<Value>(*answer);
  if (!value) return nullptr;
  return std::make_shared<const Value>(std::move(*value));
}

template <class Value>
std::shared_ptr<const void> claim_references(const Result<std::string>& answer) {
  return claim_objects<Value>(answer, nullptr);
}

// Larger arguments passed by value are sent as objects: written once to shared memory instead of through a socket.
inline constexpr size_t kInlineArgumentBytesMax = size_t{100} << 10;

// Puts an argument's bytes into this node's object store. Empty if nothing would hold the object until the call has
// ended, or this process has no store, or the store has no room; the argument is then sent by value.
AnyRef put_argument(std::span<const std::byte> bytes, std::string_view type, RefScope* contents = nullptr);

template <class P>
inline constexpr bool is_array_view = false;
template <class E>
inline constexpr bool is_array_view<Array<E>> = true;

// Size of a value that is stored as contiguous memory; 0 for values encoded element by element.
template <class P>
size_t raw_bytes(const P& value) {
  if constexpr (std::is_same_v<P, std::string>) {
    return value.size();
  } else if constexpr (std::is_same_v<P, Bytes>) {
    return value.data.size();
  } else if constexpr (is_array_view<P>) {
    return value.span().size_bytes();
  } else if constexpr (codec::is_vector<P>) {
    if constexpr (layout::Raw<typename P::value_type>) return value.size() * sizeof(typename P::value_type);
  }
  return 0;
}

// Encodes an argument passed by value.
template <class P>
void encode_argument_value(Encoder& encoder, const P& value) {
  if constexpr (is_ref<P>) {
    encode(encoder, value);
  } else if constexpr (!ObjectLayout<P>::kMayRefer) {
    if (raw_bytes(value) > kInlineArgumentBytesMax) {
      const auto put_bytes = [](std::span<const std::byte> bytes) { return put_argument(bytes, type_name<P>()); };
      if (const AnyRef object = ObjectLayout<P>::write(value, put_bytes); object.is_valid())
        return encode(encoder, object);
    }
    encode(encoder, value);
  } else {
    const size_t before = encoder.bytes().size();
    encode(encoder, value);
    if (encoder.bytes().size() - before <= kInlineArgumentBytesMax) return;
    AnyRef object;
    // The object has to hold the references of the value.
    if (RefScope* scope = RefScope::current(); scope != nullptr && !scope->empty()) {
      RefScope contents(RefScope::Kind::kSend);
      const std::string bytes = to_bytes(value);
      object = put_argument(std::as_bytes(std::span(bytes)), type_name<P>(), &contents);
    } else {
      const std::string bytes = codec::write_envelope(
          1, [&](Encoder& whole) { whole.encoded(std::string_view(encoder.bytes()).substr(before)); });
      object = put_argument(std::as_bytes(std::span(bytes)), type_name<P>());
    }
    if (!object.is_valid()) return;
    encoder.truncate(before);
    encode(encoder, object);
  }
}

// Encodes an argument of type P, passed by value or by reference.
template <class P, class A>
void encode_argument(Encoder& encoder, A&& given) {
  using G = std::decay_t<A>;
  if constexpr (std::is_same_v<G, P>) {
    encode_argument_value<P>(encoder, given);
  } else if constexpr (is_ref<G> && !is_ref<P>) {
    static_assert(std::is_same_v<G, Ref<P>>, "volador: this reference is to another type than the method takes");
    encode(encoder, given);
  } else {
    static_assert(std::is_constructible_v<P, A&&>, "volador: the method takes other arguments than these");
    encode_argument_value<P>(encoder, P(std::forward<A>(given)));
  }
}
template <class P>
void decode_argument(Decoder& decoder, P& value) {
  if constexpr (!is_ref<P>) {
    if (decoder.at_extension(AnyRef::kWireType)) {
      Ref<P> ref;
      decode(decoder, ref);
      if (decoder.failed()) return;
      auto read = ref.result();
      if (!read) return decoder.fail(std::move(read).error());
      value = std::move(*read);
      return;
    }
  }
  decode(decoder, value);
}

}  // namespace registration

// Shared memory to compute into: creates a large array without a second copy.
//   volador::ArrayDraft<float> draft(1'000'000);  fill(draft.span());
//   volador::Ref<volador::Array<float>> ref = std::move(draft).put();
template <ArrayElement T>
class ArrayDraft {
 public:
  // Throws as put().
  explicit ArrayDraft(size_t size) {
    if (size == 0) return;
    const auto store = Session::current()->objects();
    if (!store) throw Exception(Error{ErrorCode::kUnavailable, "this process has no object store"});
    auto draft = store->create(size * sizeof(T));
    if (!draft) throw Exception(std::move(draft).error());
    draft_ = std::move(*draft);
    span_ = {reinterpret_cast<T*>(draft_->space().data()), size};
  }
  std::span<T> span() const { return span_; }
  Ref<Array<T>> put(const std::source_location& place = std::source_location::current()) && {
    if (!draft_) return Ref<Array<T>>(AnyRef(std::make_shared<const std::string>()));
    auto sealed = Session::current()->objects()->seal(std::move(draft_), {type_name<Array<T>>(), place_of(place)});
    if (!sealed) throw Exception(std::move(sealed).error());
    return Ref<Array<T>>(AnyRef(std::move(*sealed)));
  }

 private:
  std::unique_ptr<ObjectDraft> draft_;
  std::span<T> span_;
};

}  // namespace volador
