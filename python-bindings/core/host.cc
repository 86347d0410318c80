#include "python-bindings/core/host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "python-bindings/core/calls.h"
#include "python-bindings/core/convert.h"
#include "python-bindings/core/gil.h"
#include "runtime/actor/call_context.h"
#include "runtime/actor/deferred.h"
#include "runtime/actor/stream.h"

namespace volador::python {
namespace {

nb::module_ host_module() { return nb::module_::import_("volador._host"); }

nb::dict environment_of_process() {
  nb::dict variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view pair = *entry;
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    variables[nb::bytes(pair.data(), equals)] = nb::bytes(pair.data() + equals + 1, pair.size() - equals - 1);
  }
  return variables;
}

// Runs Python code for a call: exceptions of the code are part of its answer, those of this function are defects or
// errors of the runtime.
template <class F>
Result<std::invoke_result_t<F>> with_python(F code) {
  const WithGil gil;
  try {
    prepare_process();
    return code();
  } catch (const nb::python_error& e) {
    // A lost argument may be made again by its task: the submitter looks at the code.
    if (e.matches(nb::module_::import_("volador.exceptions").attr("ObjectLostError")))
      return make_error(ErrorCode::kObjectLost, nb::cast<std::string>(nb::str(e.value())));
    return make_error(ErrorCode::kApplication, e.what());
  }
}

nb::list unpack_all(const std::vector<Value>& values) {
  nb::list all;
  for (const Value& value : values) all.append(unpack(value));
  return all;
}

// An awaited future may bring an exception, which is then the answer of the call.
const Value* first_exception(const std::vector<Value>& values) {
  for (const Value& value : values) {
    if (value.kind == Kind::kException) return &value;
  }
  return nullptr;
}

// An actor of a Python class: volador._host.Instance.
struct Instance {
  explicit Instance(nb::object made) : object(std::move(made)), is_async(nb::cast<bool>(object.attr("is_async"))) {}
  ~Instance() {
    const WithGil gil;
    object.reset();
    host_module().attr("flush")();
  }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  nb::object object;
  const bool is_async;  // Its methods run on an event loop.
};

// The answer of a coroutine, given to volador._host, which calls it once.
class LateAnswer {
 public:
  explicit LateAnswer(const Deferred<Value>& answer) : answer_(answer) {}
  void set(const nb::handle& parts) const {
    const Pack pack(parts);
    const Value value = pack.value("Python value");
    const WithoutGil released;
    answer_.set(value);
  }

 private:
  Deferred<Value> answer_;
};

Result<std::string> invoke(const std::string& method, void* object, std::string_view bytes) {
  auto arguments = tuple_from_bytes<Value, std::vector<Value>>(bytes);
  if (!arguments) return make_error(std::move(arguments).error());
  const auto& [given, awaited] = *arguments;
  if (const Value* failed = first_exception(awaited)) return registration::encode_answer(*failed);
  bool is_late = false;
  auto answer = with_python([&, &given = given, &awaited = awaited]() -> Value {
    const auto& [instance, is_async] = *static_cast<Instance*>(object);
    if (is_async) {
      const Deferred<Value> later;
      internal::CallContext::current()->defer(later.answer());
      is_late = true;
      instance.attr("start")(method, unpack(given), unpack_all(awaited), nb::cast(LateAnswer(later)));
      return {};
    }
    const Pack pack(instance.attr("call")(method, unpack(given), unpack_all(awaited)));
    if (pack.kind() == Kind::kExit) return {.kind = Kind::kExit};
    return pack.value("Python value");
  });
  if (!answer) return make_error(std::move(answer).error());
  if (is_late) return std::string();
  if (answer->kind == Kind::kExit) exit_actor();
  return registration::encode_answer(*answer);
}

// A generator: gives each item to the reader of the call as soon as it is there.
Result<std::string> invoke_generator(const std::string& method, void* object, std::string_view bytes) {
  auto arguments = tuple_from_bytes<Value, std::vector<Value>>(bytes);
  if (!arguments) return make_error(std::move(arguments).error());
  const auto& [given, awaited] = *arguments;
  Sink<Value> sink(internal::CallContext::current()->stream());
  if (const Value* failed = first_exception(awaited)) {
    sink.push(*failed);
    return to_bytes(std::monostate{});
  }
  std::optional<Error> gone;
  auto outcome = with_python([&, &given = given, &awaited = awaited]() -> Value {
    const nb::object items =
        static_cast<Instance*>(object)->object.attr("items")(method, unpack(given), unpack_all(awaited));
    while (!gone) {
      const nb::object item = nb::steal(PyIter_Next(items.ptr()));
      if (!item.is_valid()) {
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
        return {};
      }
      const Value value = Pack(item).value("Python value");
      const WithoutGil released;
      try {
        sink.push(value);
      } catch (const Exception& e) {
        gone = e.error();
      }
    }
    items.attr("close")();  // Runs the generator's finally blocks.
    return {};
  });
  if (gone) return make_error(std::move(*gone));
  if (!outcome) return make_error(std::move(outcome).error());
  return to_bytes(std::monostate{});
}

Result<std::shared_ptr<void>> construct(const nb::object& type, std::string_view bytes) {
  auto arguments = tuple_from_bytes<uint64_t, Value, Value>(bytes);
  if (!arguments) return make_error(std::move(arguments).error());
  return with_python([&]() -> std::shared_ptr<void> {
    return std::make_shared<Instance>(host_module().attr("construct")(type, unpack(std::get<2>(*arguments))));
  });
}

// With the interpreter lock. The class is never destroyed: calls use it until the process ends.
const ActorClass* make_class(const std::string& name, const Value& packed) {
  const nb::object described = host_module().attr("load_class")(unpack(packed));
  const nb::object type = described[0];
  auto* made = new ActorClass();
  made->name = name;
  // The reference to the type stays for as long as the class.
  made->constructors[kConstructor] = [type = new nb::object(type)](std::string_view envelope) {
    return construct(*type, envelope);
  };
  const auto add = [&](const nb::handle& methods, auto run, bool streams) {
    for (const nb::handle each : nb::cast<nb::list>(methods)) {
      const auto method = nb::cast<std::string>(each);
      made->methods[method_id(method)] = {
          .name = fmt::format("{}.{}", name, method),
          .invoke = [method, run](void* object, std::string_view envelope) { return run(method, object, envelope); },
          .streams = streams};
    }
  };
  add(described[1], &invoke, false);
  add(described[3], &invoke_generator, true);
  if (nb::cast<bool>(described[2])) {
    const auto with_directory = [](const char* method) {
      return [method](void* object, const std::filesystem::path& directory) {
        const WithGil gil;
        try {
          static_cast<Instance*>(object)->object.attr("checkpoint")(method, directory.string());
        } catch (const nb::python_error& e) {
          throw Exception(Error{ErrorCode::kApplication, e.what()});
        }
      };
    };
    made->save_checkpoint = with_directory("save_checkpoint");
    made->load_checkpoint = with_directory("load_checkpoint");
  }
  return made;
}

// Loads the class that the constructor's envelope holds. The actors of a shared host have one class for equal pickles.
Result<const ActorClass*> load_class(const std::string& name, std::string_view bytes) {
  auto arguments = tuple_from_bytes<uint64_t, Value, Value>(bytes);
  if (!arguments || std::get<0>(*arguments) != kConstructor) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("the Python program has no actor class \"{}\": a C++ program spawned it", name));
  }
  const Value& packed = std::get<1>(*arguments);
  return with_python([&] {
    static auto* classes = new std::map<std::pair<std::string, std::string>, const ActorClass*>();  // By name, pickle.
    const bool is_whole =
        packed.references.empty() && packed.handles.empty() && packed.buffers.empty() && !packed.stored.is_valid();
    if (!is_whole) return make_class(name, packed);  // It refers to what is not in its pickle.
    const ActorClass*& known = (*classes)[{name, packed.pickle}];
    if (known == nullptr) known = make_class(name, packed);
    return known;
  });
}

}  // namespace

void prepare_process() {
  static bool is_prepared = false;
  if (std::exchange(is_prepared, true)) return;  // Guarded by the interpreter lock.
  host_module().attr("prepare")(environment_of_process());
}

void install_classes() { ActorClassRegistry::instance().set_source(&load_class); }

Value run_task(const Value& code, const Value& arguments, const std::vector<Value>& awaited) {
  if (const Value* failed = first_exception(awaited)) return *failed;
  std::string raised;
  auto answer = with_python([&]() -> Value {
    const nb::object outcome = host_module().attr("run_task")(unpack(code), unpack(arguments), unpack_all(awaited));
    if (nb::isinstance<nb::str>(outcome)) {
      raised = nb::cast<std::string>(outcome);
      return {};
    }
    const Pack pack(outcome);
    return pack.value("Python value");
  });
  if (!answer) throw Exception(std::move(answer).error());
  if (!raised.empty()) throw RaisedByTask(std::move(raised));
  return std::move(*answer);
}

void bind_host(nb::module_& module) { nb::class_<LateAnswer>(module, "LateAnswer").def("set", &LateAnswer::set); }

}  // namespace volador::python
