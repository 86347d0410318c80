// Serialization of values as msgpack. Typed, without an intermediate tree: a malicious message uses no more memory than
// the values it contains and ends with an error.
//
// A type is serializable if it is a number, bool, string, enum, chrono duration, path, id, Bytes, optional, pair,
// tuple, array, vector, map or set of such, or has VOLADOR_FIELDS(Type, member…) or a pair of free functions next to
// it:
//   void volador_encode(volador::Encoder& encoder, const Type& value);
//   void volador_decode(volador::Decoder& decoder, Type& value);
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/ids.h"
#include "runtime/result.h"

namespace volador {

// Array of numbers of one type in memory layout (little-endian): msgpack extension kNumbersWireType, whose value is a
// byte for the type, followed by the numbers. Vectors and arrays of at least kNumbersMin numbers use this form, shorter
// ones msgpack arrays. Both forms can be decoded, also into another number type that can hold the values.
struct NumberBlock {
  static constexpr int8_t kWireType = 0x57;
  static constexpr size_t kNumbersMin = 64;
  enum class Kind : uint8_t { kUnsigned = 0x10, kSigned = 0x20, kReal = 0x30 };

  Kind kind = Kind::kUnsigned;
  size_t number_bytes = 1;  // 1, 2, 4 or 8; for kReal 4 or 8.
  std::string_view data;    // Unaligned. Its size is a multiple of number_bytes.

  size_t size() const { return data.size() / number_bytes; }
  // Returns the number at `index`; the kind must match.
  uint64_t unsigned_at(size_t index) const;
  int64_t signed_at(size_t index) const;
  double real_at(size_t index) const;
};

// Raw bytes (msgpack bin), as opposed to text (msgpack str).
struct Bytes {
  std::string data;
  bool operator==(const Bytes&) const = default;
};

// Appends msgpack values to a string.
class Encoder {
 public:
  void nil();
  void boolean(bool value);
  void integer(int64_t value);
  void unsigned_integer(uint64_t value);
  void real(double value);  // NaN, infinities and -0.0 are preserved.
  void real(float value);
  void text(std::string_view value);
  void binary(std::string_view value);
  void array(size_t count);  // Followed by `count` values.
  void map(size_t count);    // Followed by `count` pairs of key and value.
  void extension(int8_t type, std::string_view value);
  void numbers(const NumberBlock& block);
  void encoded(std::string_view values) { raw(values); }  // Values written by another Encoder.

  const std::string& bytes() const { return out_; }
  // Removes everything after the first `bytes` bytes.
  void truncate(size_t bytes) { out_.resize(bytes); }
  std::string take() { return std::move(out_); }

 private:
  void header(uint64_t value, uint8_t byte8, uint8_t byte16, uint8_t byte32);
  void tagged(uint8_t tag, uint64_t value, size_t bytes);
  void raw(std::string_view value);
  std::string out_;
};

// Reads msgpack. After the first error every read returns a zero value, so that loops end; check error() at the end.
// Limits: depth 64; a container cannot have more elements than bytes are left.
class Decoder {
 public:
  static constexpr int kDepthMax = 64;

  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  bool failed() const { return error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }
  // kInvalidArgument: what was expected, what was found, at which byte. Only the first error is kept.
  void fail(std::string_view expected);
  // Fails with the given error.
  void fail(Error error);

  bool boolean();
  int64_t integer();
  uint64_t unsigned_integer();
  double real();              // Integers are accepted.
  std::string_view text();    // A view into the input.
  std::string_view binary();  // A view into the input.
  size_t array();
  size_t map();
  bool take_nil();                          // If the next value is nil, consumes it and returns true.
  bool at_extension(int8_t type) const;     // Whether the next value is an extension of this type.
  std::string_view extension(int8_t type);  // A view into the input.
  NumberBlock numbers();                    // A view into the input.
  void skip();                              // Skips one value of any kind.
  bool at_end() const { return rest_.empty(); }

  // Guards recursion: false (and failed) beyond kDepthMax.
  class Depth {
   public:
    explicit Depth(Decoder& decoder) : decoder_(decoder) {
      if (++decoder_.depth_ > kDepthMax) decoder_.fail("at most 64 levels of nesting");
    }
    ~Depth() { --decoder_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Decoder& decoder_;
  };

 private:
  friend class Depth;
  uint8_t byte();
  uint64_t big_endian(int bytes);
  std::string_view view(uint64_t size);
  bool number(uint8_t tag, bool& negative, uint64_t& magnitude);
  size_t counted(uint64_t count, size_t bytes_each);
  // Header of the next extension: bytes before its value, its size and type.
  struct Extension {
    size_t header = 0;
    uint64_t size = 0;
    int8_t type = 0;
  };
  std::optional<Extension> peek_extension() const;

  std::string_view rest_;
  size_t position_ = 0;
  int depth_ = 0;
  std::optional<Error> error_;
};

template <class T>
void encode(Encoder& encoder, const T& value);
template <class T>
void decode(Decoder& decoder, T& value);

namespace codec {

template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;
template <class T>
inline constexpr bool is_array = false;
template <class T, size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_map = false;
template <class K, class V, class C, class A>
inline constexpr bool is_map<std::map<K, V, C, A>> = true;
template <class K, class V, class H, class E, class A>
inline constexpr bool is_map<std::unordered_map<K, V, H, E, A>> = true;
template <class T>
inline constexpr bool is_set = false;
template <class K, class C, class A>
inline constexpr bool is_set<std::set<K, C, A>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_duration = false;
template <class R, class P>
inline constexpr bool is_duration<std::chrono::duration<R, P>> = true;
template <class T>
inline constexpr bool is_id = false;
template <class Tag>
inline constexpr bool is_id<Id<Tag>> = true;

template <class T>
concept has_functions = requires(Encoder& encoder, Decoder& decoder, const T& in, T& out) {
  volador_encode(encoder, in);
  volador_decode(decoder, out);
};

// The number type of which T entirely consists: an arithmetic type or enum itself, or an array's element type. void: T
// has other parts. bool and long double are excluded, because their representation differs between platforms.
template <class T>
struct NumbersOf {
  using Type =
      std::conditional_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, long double>, T,
                         void>;
};
template <class T>
requires(std::is_enum_v<T> && !has_functions<T>) struct NumbersOf<T> : NumbersOf<std::underlying_type_t<T>> {
};
template <class T, size_t N>
struct NumbersOf<std::array<T, N>> : NumbersOf<T> {};
template <class T>
using Number = typename NumbersOf<T>::Type;
template <class T>
concept OfNumbers = !std::is_void_v<Number<T>> && std::endian::native == std::endian::little;

template <class N>
constexpr NumberBlock::Kind kind_of() {
  if constexpr (std::is_floating_point_v<N>) return NumberBlock::Kind::kReal;
  return std::is_signed_v<N> ? NumberBlock::Kind::kSigned : NumberBlock::Kind::kUnsigned;
}

// `count` elements as a block.
template <OfNumbers T>
NumberBlock block_of(const T* elements, size_t count) {
  return {kind_of<Number<T>>(), sizeof(Number<T>), {reinterpret_cast<const char*>(elements), count * sizeof(T)}};
}

// Returns the number at `index` as an N. False: it does not fit.
template <class N>
bool number_at(const NumberBlock& block, size_t index, N& number) {
  if (block.kind == NumberBlock::Kind::kReal) {
    if constexpr (std::is_floating_point_v<N>) number = static_cast<N>(block.real_at(index));
    return std::is_floating_point_v<N>;
  }
  const int64_t low = block.kind == NumberBlock::Kind::kSigned ? block.signed_at(index) : 0;
  if (low < 0) {
    if (std::is_integral_v<N> && (std::is_unsigned_v<N> || low < static_cast<int64_t>(std::numeric_limits<N>::min())))
      return false;
    number = static_cast<N>(low);
    return true;
  }
  const uint64_t high =
      block.kind == NumberBlock::Kind::kSigned ? static_cast<uint64_t>(low) : block.unsigned_at(index);
  if constexpr (std::is_integral_v<N>) {
    if (high > static_cast<uint64_t>(std::numeric_limits<N>::max())) return false;
  }
  number = static_cast<N>(high);
  return true;
}

// Copies the block to `to`, which has room for it, converting each number if the types differ. False: a number does not
// fit.
template <class N>
bool copy_numbers(const NumberBlock& block, N* to) {
  if (block.kind == kind_of<N>() && block.number_bytes == sizeof(N)) {
    std::memcpy(to, block.data.data(), block.data.size());
    return true;
  }
  for (size_t i = 0; i < block.size(); ++i) {
    if (!number_at(block, i, to[i])) return false;
  }
  return true;
}

// A value at any address.
template <class T>
struct [[gnu::packed, gnu::may_alias]] Unaligned {
  T value;
  operator T() const { return value; }
};

template <class T>
struct travels;

template <class T>
struct all_travel : std::false_type {};
template <class... T>
struct all_travel<std::tuple<T...>> : std::bool_constant<(travels<T>::value && ...)> {};
template <class A, class B>
struct all_travel<std::pair<A, B>> : std::bool_constant<travels<A>::value && travels<B>::value> {};

template <class T>
constexpr bool compute_travels() {
  if constexpr (has_functions<T>) {
    return true;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || is_duration<T> || is_id<T>) {
    return true;
  } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, Bytes> ||
                       std::is_same_v<T, std::filesystem::path> || std::is_same_v<T, std::monostate>) {
    return true;
  } else if constexpr (is_vector<T> || is_array<T> || is_optional<T>) {
    return travels<typename T::value_type>::value;
  } else if constexpr (is_set<T>) {
    return travels<typename T::key_type>::value;
  } else if constexpr (is_map<T>) {
    return travels<typename T::key_type>::value && travels<typename T::mapped_type>::value;
  } else if constexpr (is_tuple<T>) {
    return all_travel<T>::value;
  } else {
    return false;
  }
}

template <class T>
struct travels : std::bool_constant<compute_travels<T>()> {};

}  // namespace codec

template <class T>
concept Serializable = codec::travels<std::remove_cvref_t<T>>::value;

template <class T>
void encode(Encoder& encoder, const T& value) {
  static_assert(codec::travels<T>::value,
                "volador: this type does not travel between processes: put VOLADOR_FIELDS(Type, member…) beside it, "
                "or write volador_encode and volador_decode for it");
  if constexpr (!codec::travels<T>::value) {  // Reported by the static_assert.
  } else if constexpr (codec::has_functions<T>) {
    volador_encode(encoder, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    encoder.boolean(value);
  } else if constexpr (std::is_enum_v<T>) {
    encode(encoder, static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    if constexpr (std::is_same_v<T, float>) {
      encoder.real(value);
    } else {
      encoder.real(static_cast<double>(value));
    }
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      encoder.integer(value);
    } else {
      encoder.unsigned_integer(value);
    }
  } else if constexpr (codec::is_duration<T>) {
    encoder.integer(std::chrono::duration_cast<std::chrono::nanoseconds>(value).count());
  } else if constexpr (codec::is_id<T>) {
    encoder.binary({reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size()});
  } else if constexpr (std::is_same_v<T, std::string>) {
    encoder.text(value);
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    encoder.text(value.native());
  } else if constexpr (std::is_same_v<T, Bytes>) {
    encoder.binary(value.data);
  } else if constexpr (std::is_same_v<T, std::monostate>) {
    encoder.nil();
  } else if constexpr (codec::is_optional<T>) {
    if (value) {
      encode(encoder, *value);
    } else {
      encoder.nil();
    }
  } else if constexpr (codec::is_map<T>) {
    encoder.map(value.size());
    for (const auto& [key, mapped] : value) {
      encode(encoder, key);
      encode(encoder, mapped);
    }
  } else if constexpr (codec::is_tuple<T>) {
    encoder.array(std::tuple_size_v<T>);
    std::apply([&](const auto&... parts) { (encode(encoder, parts), ...); }, value);
  } else {
    if constexpr (codec::is_vector<T>) {
      if constexpr (std::is_same_v<typename T::value_type, uint8_t> ||
                    std::is_same_v<typename T::value_type, std::byte>) {
        encoder.binary({reinterpret_cast<const char*>(value.data()), value.size()});
        return;
      }
    }
    if constexpr ((codec::is_vector<T> || codec::is_array<T>)&&codec::OfNumbers<typename T::value_type>) {
      const NumberBlock block = codec::block_of(value.data(), value.size());
      if (block.size() >= NumberBlock::kNumbersMin) return encoder.numbers(block);
    }
    encoder.array(value.size());
    for (const auto& element : value) encode<typename T::value_type>(encoder, element);
  }
}

namespace codec {

template <OfNumbers T, class A>
void decode_numbers(Decoder& decoder, std::vector<T, A>& value) {
  using N = Number<T>;
  const NumberBlock block = decoder.numbers();
  if (decoder.failed()) return;
  constexpr size_t kNumbersEach = sizeof(T) / sizeof(N);
  if (block.size() % kNumbersEach != 0) return decoder.fail("whole elements");
  if (block.kind == kind_of<N>() && block.number_bytes == sizeof(N)) {
    // Unlike resize() and memcpy(), this does not fill the vector with zeros first.
    const auto* begin = reinterpret_cast<const Unaligned<T>*>(block.data.data());
    value.assign(begin, begin + block.size() / kNumbersEach);
    return;
  }
  value.resize(block.size() / kNumbersEach);
  if (!copy_numbers(block, reinterpret_cast<N*>(value.data()))) decoder.fail("numbers that fit the type");
}

}  // namespace codec

template <class T>
void decode(Decoder& decoder, T& value) {
  static_assert(codec::travels<T>::value,
                "volador: this type does not travel between processes: put VOLADOR_FIELDS(Type, member…) beside it, "
                "or write volador_encode and volador_decode for it");
  const Decoder::Depth depth(decoder);
  if (decoder.failed()) return;
  if constexpr (!codec::travels<T>::value) {  // Reported by the static_assert.
  } else if constexpr (codec::has_functions<T>) {
    volador_decode(decoder, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    value = decoder.boolean();
  } else if constexpr (std::is_enum_v<T>) {
    std::underlying_type_t<T> raw{};
    decode(decoder, raw);
    value = static_cast<T>(raw);
  } else if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<T>(decoder.real());
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      const int64_t wide = decoder.integer();
      if (!std::in_range<T>(wide)) return decoder.fail("an integer that fits the type");
      value = static_cast<T>(wide);
    } else {
      const uint64_t wide = decoder.unsigned_integer();
      if (wide > std::numeric_limits<T>::max()) return decoder.fail("an integer that fits the type");
      value = static_cast<T>(wide);
    }
  } else if constexpr (codec::is_duration<T>) {
    value = std::chrono::duration_cast<T>(std::chrono::nanoseconds(decoder.integer()));
  } else if constexpr (codec::is_id<T>) {
    const std::string_view bytes = decoder.binary();
    if (!decoder.failed() && bytes.size() != 16) return decoder.fail("an id of 16 bytes");
    value = id_from_raw<T>(bytes);
  } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::filesystem::path>) {
    value = T(decoder.text());
  } else if constexpr (std::is_same_v<T, Bytes>) {
    value.data = std::string(decoder.binary());
  } else if constexpr (std::is_same_v<T, std::monostate>) {
    decoder.skip();
  } else if constexpr (codec::is_optional<T>) {
    if (decoder.take_nil()) {
      value.reset();
    } else {
      value.emplace();
      decode(decoder, *value);
    }
  } else if constexpr (codec::is_map<T>) {
    value.clear();
    const size_t count = decoder.map();
    for (size_t i = 0; i < count && !decoder.failed(); ++i) {
      typename T::key_type key{};
      typename T::mapped_type mapped{};
      decode(decoder, key);
      decode(decoder, mapped);
      if (!decoder.failed()) value.insert_or_assign(std::move(key), std::move(mapped));
    }
  } else if constexpr (codec::is_tuple<T>) {
    if (decoder.array() != std::tuple_size_v<T> && !decoder.failed())
      return decoder.fail("as many elements as the tuple has");
    std::apply([&](auto&... parts) { (decode(decoder, parts), ...); }, value);
  } else if constexpr (codec::is_set<T>) {
    value.clear();
    const size_t count = decoder.array();
    for (size_t i = 0; i < count && !decoder.failed(); ++i) {
      typename T::key_type key{};
      decode(decoder, key);
      if (!decoder.failed()) value.insert(std::move(key));
    }
  } else if constexpr (codec::is_array<T>) {
    if constexpr (codec::OfNumbers<T>) {
      if (decoder.at_extension(NumberBlock::kWireType)) {
        const NumberBlock block = decoder.numbers();
        if (decoder.failed()) return;
        if (block.size() != sizeof(T) / sizeof(codec::Number<T>))
          return decoder.fail("as many numbers as the array has");
        if (!codec::copy_numbers(block, reinterpret_cast<codec::Number<T>*>(value.data())))
          decoder.fail("numbers that fit the type");
        return;
      }
    }
    if (decoder.array() != value.size() && !decoder.failed()) return decoder.fail("as many elements as the array has");
    for (auto& element : value) decode(decoder, element);
  } else {
    using Element = typename T::value_type;
    if constexpr (std::is_same_v<Element, uint8_t> || std::is_same_v<Element, std::byte>) {
      const std::string_view bytes = decoder.binary();
      const auto* begin = reinterpret_cast<const Element*>(bytes.data());
      value.assign(begin, begin + bytes.size());
    } else {
      if constexpr (codec::OfNumbers<Element>) {
        if (decoder.at_extension(NumberBlock::kWireType)) return codec::decode_numbers(decoder, value);
      }
      value.clear();
      const size_t count = decoder.array();
      for (size_t i = 0; i < count && !decoder.failed(); ++i) {
        Element element{};
        decode(decoder, element);
        value.push_back(std::move(element));
      }
    }
  }
}

// A value as a whole message: array [version, value]. A newer version is rejected with a message. Version 2 has the
// same format and marks values with references to stored objects.
inline constexpr uint64_t kEnvelopeVersion = 1;
inline constexpr uint64_t kEnvelopeVersionWithReferences = 2;

namespace codec {
// Writes an envelope of `count` values, which write(encoder) encodes in order.
template <class F>
std::string write_envelope(size_t count, F write) {
  Encoder encoder;
  encoder.array(1 + count);
  encoder.unsigned_integer(kEnvelopeVersion);
  write(encoder);
  return encoder.take();
}
// Reads the header of an envelope with at least `count` values. Returns the number of additional values, to be skipped
// at the end.
size_t open_envelope(Decoder& decoder, size_t count);
// For envelopes of fewer than 15 values.
void mark_references(std::string& envelope);
bool carries_references(std::string_view envelope);
Error take_error(const Decoder& decoder);
}  // namespace codec

namespace codec {
// Reads an envelope of values that read(decoder, value) decodes.
template <class F, class... T>
Result<std::tuple<T...>> read_envelope(std::string_view bytes, std::tuple<T...> values, F read) {
  Decoder decoder(bytes);
  const size_t extra = open_envelope(decoder, sizeof...(T));
  std::apply([&](auto&... parts) { (read(decoder, parts), ...); }, values);
  for (size_t i = 0; i < extra && !decoder.failed(); ++i) decoder.skip();
  if (!decoder.failed() && !decoder.at_end()) decoder.fail("the end of the message");
  if (decoder.failed()) return make_error(take_error(decoder));
  return values;
}
}  // namespace codec

template <class... T>
std::string to_bytes(const T&... values) {
  return codec::write_envelope(sizeof...(T), [&](Encoder& encoder) { (encode(encoder, values), ...); });
}

// kInvalidArgument: not an envelope of these types; the message has the expectation and the byte.
template <class... T>
Result<std::tuple<T...>> tuple_from_bytes(std::string_view bytes) {
  return codec::read_envelope(bytes, std::tuple<T...>(), [](Decoder& decoder, auto& value) { decode(decoder, value); });
}

template <class T>
Result<T> from_bytes(std::string_view bytes) {
  auto values = tuple_from_bytes<T>(bytes);
  if (!values) return make_error(std::move(values).error());
  return std::get<0>(std::move(*values));
}

namespace codec {

// Structs are encoded as arrays of their members in order. A shorter array leaves the last members at their defaults;
// additional elements are skipped. Members can therefore be appended.
template <class... M>
void encode_members(Encoder& encoder, const M&... members) {
  encoder.array(sizeof...(members));
  (encode(encoder, members), ...);
}
template <class... M>
void decode_members(Decoder& decoder, M&... members) {
  size_t left = decoder.array();
  const auto one = [&](auto& member) {
    if (left == 0 || decoder.failed()) return;
    --left;
    decode(decoder, member);
  };
  (one(members), ...);
  for (; left > 0 && !decoder.failed(); --left) decoder.skip();
}

}  // namespace codec
}  // namespace volador

// VOLADOR_FIELDS(Point, x, y): next to the struct, in its namespace. Up to 24 members.
#define VOLADOR_FIELDS(Type, ...)                                                                               \
  [[maybe_unused]] inline void volador_encode(::volador::Encoder& volador_encoder, const Type& volador_value) { \
    ::volador::codec::encode_members(volador_encoder, VOLADOR_EACH(VOLADOR_MEMBER, __VA_ARGS__));               \
  }                                                                                                             \
  [[maybe_unused]] inline void volador_decode(::volador::Decoder& volador_decoder, Type& volador_value) {       \
    ::volador::codec::decode_members(volador_decoder, VOLADOR_EACH(VOLADOR_MEMBER, __VA_ARGS__));               \
  }                                                                                                             \
  static_assert(true, "")

#define VOLADOR_MEMBER(name) volador_value.name
#define VOLADOR_PARENS ()
#define VOLADOR_EXPAND(...) VOLADOR_EXPAND3(VOLADOR_EXPAND3(VOLADOR_EXPAND3(__VA_ARGS__)))
#define VOLADOR_EXPAND3(...) VOLADOR_EXPAND2(VOLADOR_EXPAND2(VOLADOR_EXPAND2(__VA_ARGS__)))
#define VOLADOR_EXPAND2(...) VOLADOR_EXPAND1(VOLADOR_EXPAND1(VOLADOR_EXPAND1(__VA_ARGS__)))
#define VOLADOR_EXPAND1(...) __VA_ARGS__
// VOLADOR_EACH(macro, a, b): macro(a), macro(b)
#define VOLADOR_EACH(macro, ...) __VA_OPT__(VOLADOR_EXPAND(VOLADOR_EACH_STEP(macro, __VA_ARGS__)))
#define VOLADOR_EACH_STEP(macro, first, ...) \
  macro(first) __VA_OPT__(, VOLADOR_EACH_AGAIN VOLADOR_PARENS(macro, __VA_ARGS__))
#define VOLADOR_EACH_AGAIN() VOLADOR_EACH_STEP
