// A Python value between processes, and in the object store.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/handle.h"
#include "runtime/actor/ref.h"
#include "runtime/serialize/codec.h"

namespace volador::python {

struct PythonActor {};  // Type of handles on actors whose class is Python's.
using Handle = ActorHandle<PythonActor>;

// What the pickle of a value holds.
enum class Kind : uint8_t {
  kValue = 0,
  kException = 1,  // (exception or None, name of its type, text, traceback).
  kExit = 2,       // The method asked for the end of its actor. Never sent.
};

// The pickle of a value (protocol 5), the large buffers that it left out, and the references and handles in it.
//
// On the wire: msgpack extension kWireType with [kind, pickle, [buffer…], [reference…], [handle…], stored]. A value of
// more than kInlineArgumentBytesMax is an object of the store, and `stored` refers to it; its other members are empty.
struct Value {
  static constexpr int8_t kWireType = 0x58;

  Kind kind = Kind::kValue;
  std::string pickle;
  std::vector<Bytes> buffers;
  std::vector<AnyRef> references;
  std::vector<Handle> handles;
  AnyRef stored;
};

void volador_encode(Encoder& encoder, const Value& value);
void volador_decode(Decoder& decoder, Value& value);

// A value to send; its buffers are views.
struct Parts {
  Kind kind = Kind::kValue;
  std::string_view pickle;
  std::vector<std::span<const std::byte>> buffers;
  std::vector<AnyRef> references;
  std::vector<Handle> handles;

  size_t bytes() const;
};

// A value that was read from the object store: views, valid while `owner` lives.
struct StoredValue {
  Kind kind = Kind::kValue;
  std::string_view pickle;
  std::vector<std::span<const std::byte>> buffers;
  std::vector<AnyRef> references;
  std::vector<Handle> handles;
  std::shared_ptr<const void> owner;
};

// Whether an argument or an answer of this size travels as an object.
bool is_large(const Parts& parts);
// Copies the parts. Large ones become an object of the store where there is one; may wait for room. The references in
// the value are counted by the RefScope of this thread when it is encoded.
[[nodiscard]] Result<Value> to_value(const Parts& parts, std::string_view type);
// Puts a value into the object store: the pickle after a header, each buffer at a multiple of 64 bytes. kStoreFull,
// kUnavailable. `place`: "train.py:41".
[[nodiscard]] Result<AnyRef> put_parts(const Parts& parts, const PutSite& site);
// Reads such an object. Waits. kInvalidArgument: it is not a Python value. Other errors as for AnyRef::bytes.
[[nodiscard]] Result<StoredValue> read_stored(const AnyRef& ref, std::optional<std::chrono::nanoseconds> timeout);

}  // namespace volador::python

// A large result is an object, which its task makes again if it is lost.
template <>
inline constexpr bool volador::registration::brings_refs<volador::python::Value> = true;
