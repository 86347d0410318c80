#include "python-bindings/core/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/actor/math_threads.h"
#include "runtime/store/large_copy.h"

namespace volador::python {
namespace {

// Start of a stored value: the mark, the size of the header in 8 bytes (little-endian), the header in msgpack.
constexpr std::string_view kMark = "VOLPYv01";
constexpr size_t kPrefixBytes = 16;
constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string header_of(const Parts& parts) {
  Encoder encoder;
  encoder.array(5);
  encode(encoder, parts.kind);
  encoder.binary(parts.pickle);
  encoder.array(parts.buffers.size());
  for (const auto& buffer : parts.buffers) encoder.unsigned_integer(buffer.size());
  encode(encoder, parts.references);
  encode(encoder, parts.handles);
  std::string header(kMark);
  const uint64_t bytes = encoder.bytes().size();
  header.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  header += encoder.bytes();
  return header;
}

size_t stored_bytes(const std::string& header, const Parts& parts) {
  return std::accumulate(parts.buffers.begin(), parts.buffers.end(), header.size(),
                         [](size_t sum, const auto& buffer) { return aligned(sum) + buffer.size(); });
}

void write_stored(std::byte* to, const std::string& header, const Parts& parts) {
  std::memcpy(to, header.data(), header.size());
  size_t at = header.size();
  for (const auto& buffer : parts.buffers) {
    const size_t begin = aligned(at);
    std::memset(to + at, 0, begin - at);
    copy_large(to + begin, buffer, buffer.size() < kParallelCopyBytesMin ? 1 : granted_threads());
    at = begin + buffer.size();
  }
}

bool has_store() { return Session::has_current() && Session::current()->objects() != nullptr; }

}  // namespace

void volador_encode(Encoder& encoder, const Value& value) {
  Encoder inner;
  inner.array(6);
  encode(inner, value.kind);
  inner.binary(value.pickle);
  encode(inner, value.buffers);
  encode(inner, value.references);
  encode(inner, value.handles);
  if (value.stored.is_valid()) {
    encode(inner, value.stored);
  } else {
    inner.nil();
  }
  encoder.extension(Value::kWireType, inner.bytes());
}

void volador_decode(Decoder& decoder, Value& value) {
  value = Value();
  const std::string_view bytes = decoder.extension(Value::kWireType);
  if (decoder.failed()) return;
  Decoder inner(bytes);
  if (inner.array() != 6 && !inner.failed()) inner.fail("the six parts of a Python value");
  decode(inner, value.kind);
  value.pickle = std::string(inner.binary());
  decode(inner, value.buffers);
  decode(inner, value.references);
  decode(inner, value.handles);
  if (!inner.take_nil()) decode(inner, value.stored);
  if (inner.failed()) decoder.fail(*inner.error());
}

size_t Parts::bytes() const {
  return std::accumulate(buffers.begin(), buffers.end(), pickle.size(),
                         [](size_t sum, const auto& buffer) { return sum + buffer.size(); });
}

bool is_large(const Parts& parts) { return parts.bytes() > registration::kInlineArgumentBytesMax; }

Result<Value> to_value(const Parts& parts, std::string_view type) {
  Value value;
  value.kind = parts.kind;
  if (is_large(parts) && has_store()) {
    auto stored = put_parts(parts, {type, "argument"});
    if (!stored) return make_error(std::move(stored).error());
    value.stored = std::move(*stored);
    return value;
  }
  value.pickle = std::string(parts.pickle);
  value.buffers.reserve(parts.buffers.size());
  for (const auto& buffer : parts.buffers)
    value.buffers.push_back({std::string(reinterpret_cast<const char*>(buffer.data()), buffer.size())});
  value.references = parts.references;
  value.handles = parts.handles;
  return value;
}

Result<AnyRef> put_parts(const Parts& parts, const PutSite& site) {
  RefScope contents(RefScope::Kind::kSend);
  const std::string header = header_of(parts);
  const size_t bytes = stored_bytes(header, parts);
  if (bytes <= kInlineObjectBytesMax || contents.objects().size() + contents.actors().size() > 0) {
    std::string whole(bytes, '\0');
    write_stored(reinterpret_cast<std::byte*>(whole.data()), header, parts);
    return AnyRef::put(std::as_bytes(std::span(whole)), site, &contents);
  }
  const auto store = Session::current()->objects();
  if (!store) return make_error(ErrorCode::kUnavailable, "this process has no object store");
  auto draft = store->create(bytes);
  if (!draft) return make_error(std::move(draft).error());
  write_stored((*draft)->space().data(), header, parts);
  auto sealed = store->seal(std::move(*draft), site);
  if (!sealed) return make_error(std::move(sealed).error());
  return AnyRef(std::move(*sealed));
}

Result<StoredValue> read_stored(const AnyRef& ref, std::optional<std::chrono::nanoseconds> timeout) {
  auto bytes = ref.bytes(timeout);
  if (!bytes) return make_error(std::move(bytes).error());
  const std::string_view text = bytes->text();
  const Error other{ErrorCode::kInvalidArgument,
                    "the object is not a Python value: a C++ program put it; read it there, or let that program pass "
                    "the value itself"};
  if (!text.starts_with(kMark) || text.size() < kPrefixBytes) return make_error(other);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data() + kMark.size(), sizeof header_bytes);
  if (header_bytes > text.size() - kPrefixBytes) return make_error(other);

  StoredValue value;
  value.owner = bytes->owner;
  const internal::ReadScope scope(ref.stored());
  Decoder decoder(text.substr(kPrefixBytes, header_bytes));
  if (decoder.array() != 5) return make_error(other);
  decode(decoder, value.kind);
  value.pickle = decoder.binary();
  std::vector<uint64_t> sizes;
  decode(decoder, sizes);
  decode(decoder, value.references);
  decode(decoder, value.handles);
  if (decoder.failed()) return make_error(codec::take_error(decoder));
  size_t at = kPrefixBytes + header_bytes;
  for (const uint64_t size : sizes) {
    const size_t begin = aligned(at);
    if (begin > text.size() || size > text.size() - begin) return make_error(other);
    value.buffers.push_back(bytes->view.subspan(begin, size));
    at = begin + size;
  }
  return value;
}

}  // namespace volador::python
