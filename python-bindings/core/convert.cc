#include "python-bindings/core/convert.h"

#include "python-bindings/core/gil.h"

namespace volador::python {
namespace {

nb::bytes to_bytes_object(std::string_view bytes) { return nb::bytes(bytes.data(), bytes.size()); }

template <class References, class Handles>
nb::object loaded(Kind kind, nb::object pickle, nb::list buffers, const References& references,
                  const Handles& handles) {
  nb::list refs, actors;
  for (const AnyRef& ref : references) refs.append(nb::cast(ref));
  for (const Handle& handle : handles) actors.append(nb::cast(handle));
  return nb::make_tuple(static_cast<int>(kind), std::move(pickle), std::move(buffers), std::move(refs),
                        std::move(actors));
}

}  // namespace

Pack::Pack(const nb::handle& parts) : held_(nb::borrow(parts)) {
  const auto fields = nb::cast<nb::tuple>(parts);
  parts_.kind = static_cast<Kind>(nb::cast<int>(fields[0]));
  const auto pickle = nb::cast<nb::bytes>(fields[1]);
  parts_.pickle = {pickle.c_str(), pickle.size()};
  for (const nb::handle ref : nb::cast<nb::list>(fields[3])) parts_.references.push_back(nb::cast<AnyRef>(ref));
  for (const nb::handle actor : nb::cast<nb::list>(fields[4])) parts_.handles.push_back(nb::cast<Handle>(actor));
  for (const nb::handle buffer : nb::cast<nb::list>(fields[2])) {
    Py_buffer view;
    if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_ANY_CONTIGUOUS) != 0) {
      for (Py_buffer& each : views_) PyBuffer_Release(&each);
      throw nb::python_error();
    }
    views_.push_back(view);
    parts_.buffers.push_back({static_cast<const std::byte*>(view.buf), static_cast<size_t>(view.len)});
  }
}

Pack::~Pack() {
  for (Py_buffer& view : views_) PyBuffer_Release(&view);
}

Value Pack::value(std::string_view type) const {
  if (!is_large(parts_)) return *to_value(parts_, type);
  Result<Value> value;
  {
    const WithoutGil released;
    value = to_value(parts_, type);
  }
  return value_or_raise(std::move(value));
}

nb::object unpack(const Value& value, std::optional<std::chrono::nanoseconds> timeout) {
  if (value.stored.is_valid()) {
    Result<StoredValue> stored;
    {
      const WithoutGil released;
      stored = read_stored(value.stored, timeout);
    }
    return unpack(value_or_raise(std::move(stored)));
  }
  nb::list buffers;
  for (const Bytes& buffer : value.buffers)
    buffers.append(
        nb::steal(PyByteArray_FromStringAndSize(buffer.data.data(), static_cast<Py_ssize_t>(buffer.data.size()))));
  return loaded(value.kind, to_bytes_object(value.pickle), std::move(buffers), value.references, value.handles);
}

nb::object unpack(const StoredValue& value) {
  nb::list buffers;
  for (const auto& bytes : value.buffers) buffers.append(nb::cast(Buffer{bytes, value.owner}));
  return loaded(value.kind, to_bytes_object(value.pickle), std::move(buffers), value.references, value.handles);
}

void raise(const Error& error) {
  const nb::object made =
      nb::module_::import_("volador.exceptions").attr("from_code")(static_cast<int>(error.code), error.message);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

}  // namespace volador::python
