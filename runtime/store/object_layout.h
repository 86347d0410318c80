// Storage format of a type in an object: numbers and bytes are raw, everything else is msgpack.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/serialize/codec.h"
#include "runtime/store/array.h"

namespace volador {

// Bytes of an object and their owner.
struct ObjectBytes {
  std::span<const std::byte> view;
  std::shared_ptr<const void> owner;
  std::string_view text() const { return {reinterpret_cast<const char*>(view.data()), view.size()}; }
};

// write(value, function): calls function(bytes) once with the bytes to store. read(): returns the value;
// kInvalidArgument: invalid bytes. kMayRefer: the value may contain references or handles.
template <class T>
struct ObjectLayout {
  static constexpr bool kMayRefer = !std::is_arithmetic_v<T>;
  static_assert(Serializable<T>,
                "volador: this type cannot be put: put VOLADOR_FIELDS(Type, member…) beside it, or write "
                "volador_encode and volador_decode for it");
  template <class F>
  static auto write(const T& value, F function) {
    const std::string bytes = to_bytes(value);
    return function(std::as_bytes(std::span(bytes)));
  }
  static Result<T> read(const ObjectBytes& bytes) { return from_bytes<T>(bytes.text()); }
};

namespace layout {

template <class E>
Result<std::span<const E>> elements(const ObjectBytes& bytes) {
  if (bytes.view.size() % sizeof(E) != 0 || reinterpret_cast<uintptr_t>(bytes.view.data()) % alignof(E) != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "object: its bytes are no row of whole elements: it was put as another type");
  }
  return std::span<const E>(reinterpret_cast<const E*>(bytes.view.data()), bytes.view.size() / sizeof(E));
}

template <class E>
concept Raw = std::is_arithmetic_v<E> && !std::is_same_v<E, bool>;

}  // namespace layout

template <layout::Raw E, class A>
struct ObjectLayout<std::vector<E, A>> {
  static constexpr bool kMayRefer = false;
  template <class F>
  static auto write(const std::vector<E, A>& value, F function) {
    return function(std::as_bytes(std::span(value)));
  }
  static Result<std::vector<E, A>> read(const ObjectBytes& bytes) {
    auto elements = layout::elements<E>(bytes);
    if (!elements) return make_error(std::move(elements).error());
    return std::vector<E, A>(elements->begin(), elements->end());
  }
};

template <ArrayElement E>
struct ObjectLayout<Array<E>> {
  static constexpr bool kMayRefer = false;
  template <class F>
  static auto write(const Array<E>& value, F function) {
    return function(std::as_bytes(value.span()));
  }
  // Without a copy.
  static Result<Array<E>> read(const ObjectBytes& bytes) {
    auto elements = layout::elements<E>(bytes);
    if (!elements) return make_error(std::move(elements).error());
    return Array<E>(*elements, bytes.owner);
  }
};

template <>
struct ObjectLayout<std::string> {
  static constexpr bool kMayRefer = false;
  template <class F>
  static auto write(const std::string& value, F function) {
    return function(std::as_bytes(std::span(value)));
  }
  static Result<std::string> read(const ObjectBytes& bytes) { return std::string(bytes.text()); }
};

template <>
struct ObjectLayout<Bytes> {
  static constexpr bool kMayRefer = false;
  template <class F>
  static auto write(const Bytes& value, F function) {
    return function(std::as_bytes(std::span(value.data)));
  }
  static Result<Bytes> read(const ObjectBytes& bytes) { return Bytes{std::string(bytes.text())}; }
};

}  // namespace volador
