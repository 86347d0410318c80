// Values between Python objects and the runtime. All functions need the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string_view>
#include <utility>

#include "python-bindings/core/calls.h"
#include "python-bindings/core/gil.h"
#include "python-bindings/core/value.h"

namespace volador::python {

namespace nb = nanobind;

// Bytes of an object of the store, readable through the buffer protocol without a copy.
struct Buffer {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// A serialized Python value as volador._values makes it: (kind, pickle, [buffer], [Ref], [Handle]). Holds the buffers.
class Pack {
 public:
  explicit Pack(const nb::handle& parts);
  ~Pack();
  Pack(const Pack&) = delete;
  Pack& operator=(const Pack&) = delete;

  const Parts& parts() const { return parts_; }
  Kind kind() const { return parts_.kind; }
  // Copies or stores the value; releases the lock meanwhile. Throws Exception.
  Value value(std::string_view type) const;

 private:
  nb::object held_;
  std::vector<Py_buffer> views_;
  Parts parts_;
};

// A value for volador._values to load: (kind, pickle, [buffer], [Ref], [Handle]). Waits for a stored value, without the
// lock. Throws Exception; kTimeout: nothing came within `timeout`.
nb::object unpack(const Value& value, std::optional<std::chrono::nanoseconds> timeout = {});
nb::object unpack(const StoredValue& value);

// Throws the Python exception of an error.
[[noreturn]] void raise(const Error& error);

template <class T>
T value_or_raise(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Calls without the interpreter lock, so that other threads go on.
template <class F>
auto without_gil(F call) {
  auto result = [&] {
    const WithoutGil released;
    return call();
  }();
  return value_or_raise(std::move(result));
}

}  // namespace volador::python
