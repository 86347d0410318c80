// A Python object that lives in threads with and without the interpreter lock.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "python-bindings/core/gil.h"

namespace volador::python {

class Held {
 public:
  explicit Held(nanobind::object object) : object_(std::move(object)) {}
  ~Held() {
    const WithGil gil;
    object_.reset();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  const nanobind::object& operator*() const { return object_; }

 private:
  nanobind::object object_;
};

}  // namespace volador::python
