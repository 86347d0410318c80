// The extension volador._core: the runtime for the Python package, which gives it its shape. No logic of its own beyond
// conversion, the interpreter lock and signals.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "python-bindings/core/calls.h"
#include "python-bindings/core/convert.h"
#include "python-bindings/core/debug.h"
#include "python-bindings/core/frames.h"
#include "python-bindings/core/gil.h"
#include "python-bindings/core/host.h"
#include "python-bindings/core/jobs.h"
#include "python-bindings/core/storage.h"
#include "python-bindings/core/train.h"
#include "python-bindings/core/tune.h"
#include "runtime/actor/call_context.h"
#include "runtime/actor/lending.h"
#include "runtime/actor/math_threads.h"
#include "runtime/actor/self.h"
#include "runtime/machine.h"
#include "runtime/version.h"
#include "volador/embedding.h"
#include "volador/init.h"

namespace volador::python {

void bind_debug(nb::module_& module);
void bind_frames(nb::module_& module);
void bind_host(nb::module_& module);

namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// A wait of the main thread is interrupted this often, so that Ctrl-C ends it.
constexpr std::chrono::milliseconds kSignalInterval{50};
using Fields = nb::typed<nb::dict, nb::str, nb::object>;
using Objects = nb::typed<nb::list, nb::object>;
using LabelRules =
    std::vector<std::tuple<std::string, std::string, std::vector<std::string>>>;  // Key, operator, values.

constexpr std::chrono::seconds kDestructorMax{10};
constexpr double kSecondsMax = 1e9;  // Longer timeouts are none.

std::optional<steady_clock::time_point> deadline_after(std::optional<double> seconds) {
  if (!seconds || *seconds > kSecondsMax) return std::nullopt;
  if (std::isnan(*seconds)) raise({ErrorCode::kInvalidArgument, "timeout: expected seconds or None, got nan"});
  return steady_clock::now() +
         std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(std::max(*seconds, 0.0)));
}

bool is_main_thread() { return getpid() == gettid(); }

// Waits by `wait_until(deadline)`, which returns whether the event has happened, without the interpreter lock. On the
// main thread of a driver a signal handler's exception ends the wait.
template <class WaitUntil>
bool wait_with_signals(std::optional<double> timeout, WaitUntil wait_until) {
  const auto deadline = deadline_after(timeout);
  if (!is_main_thread() || is_inside_actor()) {
    const WithoutGil released;
    return wait_until(deadline);
  }
  while (true) {
    auto until = std::optional(steady_clock::now() + kSignalInterval);
    if (deadline && *deadline < *until) until = deadline;
    bool happened = false;
    {
      const WithoutGil released;
      happened = wait_until(until);
    }
    if (happened) return true;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (deadline && steady_clock::now() >= *deadline) return false;
  }
}

// Tokens of futures that have ended, for one event loop: its descriptor is readable while there are any.
class Completions {
 public:
  Completions() : state_(std::make_shared<State>()) {
    state_->fd = net::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!state_->fd)
      raise({ErrorCode::kUnavailable, "no descriptor for the results of an event loop: too many are open"});
  }
  int fd() const { return state_->fd.get(); }
  std::vector<uint64_t> take() const {
    const std::lock_guard hold(state_->mutex);
    uint64_t count = 0;
    if (read(state_->fd.get(), &count, sizeof count) < 0) count = 0;
    return std::exchange(state_->tokens, {});
  }
  // Adds the token when the future has ended.
  void add(const ValueFuture& future, uint64_t token) const {
    const WithoutGil released;
    future.when_ready([state = state_, token] {
      const std::lock_guard hold(state->mutex);
      state->tokens.push_back(token);
      const uint64_t one = 1;
      if (state->tokens.size() == 1 && write(state->fd.get(), &one, sizeof one) < 0) return;
    });
  }

 private:
  struct State {
    std::mutex mutex;
    net::UniqueFd fd;
    std::vector<uint64_t> tokens;
  };
  std::shared_ptr<State> state_;
};

// Result of a future: errors as exceptions; kTimeout if it does not end in time.
nb::object take(const ValueFuture& future, std::optional<double> timeout) {
  const bool ended = future.is_ready() || wait_with_signals(timeout, [&](const auto& deadline) {
                       return deadline ? future.wait_for(*deadline - steady_clock::now()) : (future.result(), true);
                     });
  if (!ended) {
    raise({ErrorCode::kTimeout,
           "the result has not come yet; the call or task goes on: wait longer, or end it by volador.cancel()"});
  }
  auto value = value_or_raise(future.result());
  return unpack(value);
}

nb::object read(const AnyRef& ref, std::optional<double> timeout) {
  Result<StoredValue> stored = make_error(ErrorCode::kTimeout, "the object has not come yet: wait longer");
  wait_with_signals(timeout, [&](const auto& deadline) {
    std::optional<nanoseconds> left;
    if (deadline) left = std::max(*deadline - steady_clock::now(), nanoseconds(0));
    stored = read_stored(ref, left);
    return stored.has_value() || stored.error().code != ErrorCode::kTimeout;
  });
  return unpack(value_or_raise(std::move(stored)));
}

// Indices of the first `count` things that are ready, fewer after the timeout.
std::vector<size_t> wait(const Objects& things, size_t count, std::optional<double> timeout) {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    size_t ready = 0;
  };
  const auto state = std::make_shared<State>();
  const auto one = [state] {
    const std::lock_guard hold(state->mutex);
    ++state->ready;
    state->changed.notify_one();
  };
  std::vector<std::function<bool()>> is_ready;
  for (const nb::handle thing : things) {
    if (nb::isinstance<ValueFuture>(thing)) {
      const auto future = nb::cast<ValueFuture>(thing);
      is_ready.push_back([future] { return future.is_ready(); });
      const WithoutGil released;
      future.when_ready(one);
    } else {
      const auto ref = nb::cast<AnyRef>(thing);
      is_ready.push_back([ref] { return ref.is_ready(); });
      const WithoutGil released;
      ref.when_ready(one);
    }
  }
  const size_t enough = std::min(count, is_ready.size());
  wait_with_signals(timeout, [&](const auto& deadline) {
    std::unique_lock hold(state->mutex);
    return internal::wait_lending(state->changed, hold, deadline, [&] { return state->ready >= enough; });
  });
  std::vector<size_t> ready;
  for (size_t i = 0; i < is_ready.size() && ready.size() < enough; ++i) {
    if (is_ready[i]()) ready.push_back(i);
  }
  return ready;
}

// Items of a generator's call.
class ItemStream {
 public:
  explicit ItemStream(std::shared_ptr<internal::StreamReader> reader) : reader_(std::move(reader)) {}
  ~ItemStream() { close(); }
  ItemStream(ItemStream&&) noexcept = default;

  // Throws StopIteration at the end, kTimeout.
  nb::object next(std::optional<double> timeout) const {
    if (!wait_with_signals(timeout, [this](const auto& deadline) { return reader_->wait_until(deadline); }))
      raise({ErrorCode::kTimeout, "the next item has not come yet; the generator goes on: wait longer"});
    const auto item = value_or_raise(reader_->next());
    if (!item) throw nb::stop_iteration();
    return unpack(value_or_raise(from_bytes<Value>(item->bytes)));
  }
  void close() {
    if (!reader_) return;
    const WithoutGil released;
    std::exchange(reader_, nullptr)->close();
  }

 private:
  std::shared_ptr<internal::StreamReader> reader_;
};

// Whether the group's bundles are reserved within the time.
bool wait_for_group(const PlacementGroup& group, std::optional<double> timeout) {
  const Future<void> ready = group.ready();
  if (!wait_with_signals(timeout, [&](const auto& deadline) {
        return deadline ? ready.wait_for(*deadline - steady_clock::now()) : (ready.result(), true);
      }))
    return false;
  value_or_raise(ready.result());
  return true;
}

Resources resources_of(double cpus, double gpus, int64_t memory, const std::map<std::string, double>& custom) {
  return {.cpus = cpus, .gpus = gpus, .memory = memory, .custom = custom};
}

NodeAffinity affinity_of(const std::string& node, bool node_preferred, const LabelRules& labels) {
  NodeAffinity affinity;
  affinity.node = node;
  affinity.node_preferred = node_preferred;
  for (const auto& [key, op, values] : labels) {
    LabelValue::Op which = LabelValue::Op::kIn;
    if (op == "not_in") which = LabelValue::Op::kNotIn;
    if (op == "exists") which = LabelValue::Op::kExists;
    if (op == "absent") which = LabelValue::Op::kAbsent;
    affinity.labels.push_back({key, LabelValue(which, values)});
  }
  return affinity;
}

std::vector<ValueFuture> futures_of(const Objects& futures) {
  std::vector<ValueFuture> all;
  for (const nb::handle future : futures) all.push_back(nb::cast<ValueFuture>(future));
  return all;
}

nanoseconds timeout_of(std::optional<double> seconds) {
  if (!seconds || *seconds > kSecondsMax) return nanoseconds(0);
  if (!(*seconds > 0)) raise({ErrorCode::kInvalidArgument, "timeout: expected more than 0 seconds or None"});
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(*seconds));
}

// Options of spawn(), each with the name that volador._actor gives it.
struct SpawnOptions {
  std::string class_name, name, actor_namespace, node;
  double num_cpus = 0, num_gpus = 0;
  int64_t memory = 0;
  std::map<std::string, double> resources;
  std::map<std::string, std::string> env;
  LabelRules labels;
  bool node_preferred = false, detached = false, shared = false, wait_if_infeasible = false, get_if_exists = false;
  int max_restarts = 0, max_task_retries = 0, max_concurrency = 1, priority = 0, bundle = kAnyBundle;
  double start_timeout_s = 60, checkpoint_interval_s = 0;
  int64_t checkpoint_calls = 0;
  std::vector<std::tuple<std::string, int, std::vector<std::string>>> groups;
  PlacementGroup group;  // Nil: none.
};

SpawnRequest request_of(const SpawnOptions& options) {
  SpawnRequest request;
  request.class_name = options.class_name;
  request.name = options.name;
  request.actor_namespace = options.actor_namespace;
  request.resources = value_or_raise(
      ResourceSet::from(resources_of(options.num_cpus, options.num_gpus, options.memory, options.resources)));
  request.env = options.env;
  request.wishes = affinity_of(options.node, options.node_preferred, options.labels);
  request.detached = options.detached;
  request.isolation = options.shared ? Isolation::kShared : Isolation::kProcess;
  request.wait_if_infeasible = options.wait_if_infeasible;
  request.max_restarts = options.max_restarts;
  request.max_task_retries = options.max_task_retries;
  request.max_concurrency = options.max_concurrency;
  request.priority = options.priority;
  request.start_timeout = std::chrono::milliseconds(std::llround(options.start_timeout_s * 1000));
  request.checkpoint_interval = std::chrono::milliseconds(std::llround(options.checkpoint_interval_s * 1000));
  request.checkpoint_calls = options.checkpoint_calls;
  request.ends_with_handles = !options.detached;
  if (!options.group.id().is_nil()) {
    request.group = options.group.id();
    request.bundle = options.bundle;
  }
  for (const auto& [name, threads, methods] : options.groups) {
    SpawnRequest::ConcurrencyGroup group{name, threads, {}};
    for (const std::string& method : methods) group.methods.push_back(method_id(method));
    request.groups.push_back(std::move(group));
  }
  value_or_raise(check_concurrency(request));
  value_or_raise(check_isolation(request));
  value_or_raise(check(request.wishes));
  return request;
}

Handle spawn(const SpawnOptions& options, const nb::handle& type, const nb::handle& arguments) {
  SpawnRequest request = request_of(options);
  const Value type_value = Pack(type).value("Python class");
  const Value argument_value = Pack(arguments).value("Python value");
  Result<ActorId> id;
  std::shared_ptr<const ActorHold> hold;
  {
    const WithoutGil released;
    RefScope scope(RefScope::Kind::kSend);
    request.arguments = to_bytes<uint64_t, Value, Value>(kConstructor, type_value, argument_value);
    request.pins = scope.take();
    const auto session = Session::current();
    const auto find = [&] { return session->find(request.name, request.actor_namespace, request.class_name); };
    if (options.get_if_exists) id = find();
    if (!options.get_if_exists || (!id && id.error().code == ErrorCode::kNotFound)) {
      id = session->spawn(request);
      if (id && request.ends_with_handles) hold = session->hold(*id, Session::HandleFrom::kSpawn);
      if (!id && options.get_if_exists) {  // Another process was faster.
        if (auto found = find()) id = std::move(found);
      }
    }
  }
  return Handle(value_or_raise(std::move(id)), std::move(hold));
}

std::pair<Handle, std::string> find_actor(const std::string& name, const std::string& actor_namespace) {
  Result<ActorId> id;
  std::string class_name;
  {
    const WithoutGil released;
    const auto session = Session::current();
    id = session->find(name, actor_namespace, {});
    if (id) {
      if (const auto status = session->status(*id)) class_name = status->class_name;
    }
  }
  return {Handle(value_or_raise(std::move(id))), class_name};
}

Fields status_of(const Handle& handle) {
  Result<ActorStatus> status;
  {
    const WithoutGil released;
    status = Session::current()->status(handle.id());
  }
  const ActorStatus& now = value_or_raise(std::move(status));
  Fields fields;
  fields["state"] = std::string(to_string(now.state));
  fields["node"] = now.node_name;
  fields["pid"] = now.pid;
  fields["restarts"] = now.restarts;
  fields["class_name"] = now.class_name;
  fields["name"] = now.name;
  fields["namespace"] = now.actor_namespace;
  fields["reason"] = now.reason;
  fields["death"] = now.death.message;
  return fields;
}

std::map<std::string, double> amounts_of(const ResourceSet& resources) {
  std::map<std::string, double> amounts;
  for (const auto& [name, amount] : resources.entries())
    amounts[name] = name == "memory" ? static_cast<double>(amount) : static_cast<double>(amount) / kUnit;
  return amounts;
}

Fields context() {
  Fields fields;
  fields["cluster"] = Session::current()->cluster_name();
  if (!is_inside_actor()) return fields;
  const Self& here = self();
  fields["actor_id"] = to_string(here.id);
  fields["class_name"] = here.class_name;
  fields["name"] = here.name;
  fields["namespace"] = here.actor_namespace;
  fields["restarts"] = here.restarts;
  fields["node"] = here.node_name;
  fields["node_id"] = to_string(here.node);
  fields["node_address"] = here.node_address;
  fields["resources"] = amounts_of(here.resources);
  fields["gpus"] = here.gpus;
  fields["scratch"] = here.scratch_directory().string();
  return fields;
}

// Returns at once in a process that was not started for a role.
void start_process_role() {
  install_frames();
  install_debuggers();
  install_classes();
  install_trainables();
  Embedding embedding;
  // Released while the process waits; the template takes the lock for the time of a fork.
  PyThreadState* main = PyEval_SaveThread();
  embedding.before_fork = [&main] {
    PyEval_RestoreThread(main);
    PyOS_BeforeFork();
  };
  embedding.after_fork_in_template = [&main] {
    PyOS_AfterFork_Parent();
    main = PyEval_SaveThread();
  };
  embedding.after_fork_in_host = [&main] {
    PyOS_AfterFork_Child();
    main = PyEval_SaveThread();
  };
  std::optional<Error> error;
  try {
    volador::start_role(embedding);
  } catch (const Exception& e) {
    error = e.error();
  }
  PyEval_RestoreThread(main);
  if (error) raise(*error);
}

std::optional<Cluster>& cluster() {
  static auto* connected = new std::optional<Cluster>();  // Closed by shutdown(), never by a static destructor.
  return *connected;
}

// Name and address of the cluster, and whether it is private.
std::tuple<std::string, std::string, bool> connect(const InitOptions& options, const std::string& name,
                                                   const std::vector<std::string>& argv,
                                                   const std::map<std::string, std::string>& env) {
  install_classes();
  install_trainables();
  const WithoutGil released;
  cluster().emplace(volador::init(options, Embedding{.name = name, .argv = argv, .env = env}));
  return {cluster()->name(), cluster()->address(), cluster()->is_private()};
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Buffer& buffer = *nb::inst_ptr<Buffer>(nb::handle(self));
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(buffer.bytes.data()),
                           static_cast<Py_ssize_t>(buffer.bytes.size()), 1, flags);
}
PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};

void bind_options(nb::module_& module) {
  nb::class_<InitOptions>(module, "InitOptions")
      .def(nb::init<>())
      .def_rw("address", &InitOptions::address)
      .def_rw("token", &InitOptions::token)
      .def_rw("namespace", &InitOptions::actor_namespace)
      .def_rw("num_cpus", &InitOptions::num_cpus)
      .def_rw("num_gpus", &InitOptions::num_gpus)
      .def_rw("object_store_memory", &InitOptions::object_store_memory)
      .def_rw("log_to_driver", &InitOptions::logs_to_driver);
  nb::class_<SpawnOptions>(module, "SpawnOptions")
      .def(nb::init<>())
      .def_rw("class_name", &SpawnOptions::class_name)
      .def_rw("name", &SpawnOptions::name)
      .def_rw("namespace", &SpawnOptions::actor_namespace)
      .def_rw("node", &SpawnOptions::node)
      .def_rw("node_preferred", &SpawnOptions::node_preferred)
      .def_rw("num_cpus", &SpawnOptions::num_cpus)
      .def_rw("num_gpus", &SpawnOptions::num_gpus)
      .def_rw("memory", &SpawnOptions::memory)
      .def_rw("resources", &SpawnOptions::resources)
      .def_rw("env", &SpawnOptions::env)
      .def_rw("labels", &SpawnOptions::labels)
      .def_rw("detached", &SpawnOptions::detached)
      .def_rw("shared", &SpawnOptions::shared)
      .def_rw("wait_if_infeasible", &SpawnOptions::wait_if_infeasible)
      .def_rw("get_if_exists", &SpawnOptions::get_if_exists)
      .def_rw("max_restarts", &SpawnOptions::max_restarts)
      .def_rw("max_task_retries", &SpawnOptions::max_task_retries)
      .def_rw("max_concurrency", &SpawnOptions::max_concurrency)
      .def_rw("priority", &SpawnOptions::priority)
      .def_rw("start_timeout_s", &SpawnOptions::start_timeout_s)
      .def_rw("checkpoint_interval_s", &SpawnOptions::checkpoint_interval_s)
      .def_rw("checkpoint_calls", &SpawnOptions::checkpoint_calls)
      .def_rw("concurrency_groups", &SpawnOptions::groups)
      .def("set_group", [](SpawnOptions& options, const PlacementGroup& group, int bundle) {
        options.group = group;
        options.bundle = bundle;
      });
  nb::class_<TaskOptions>(module, "TaskOptions")
      .def(nb::init<>())
      .def_rw("name", &TaskOptions::name)
      .def_rw("max_retries", &TaskOptions::max_retries)
      .def_rw("retry_exceptions", &TaskOptions::retry_exceptions)
      .def("set_group",
           [](TaskOptions& options, const PlacementGroup& group, int bundle) {
             options.group = group.id();
             options.bundle = bundle;
           })
      .def("set_resources",
           [](TaskOptions& options, double cpus, double gpus, int64_t memory,
              const std::map<std::string, double>& custom) {
             options.resources = resources_of(cpus, gpus, memory, custom);
           })
      .def("set_place", [](TaskOptions& options, const std::string& node, bool node_preferred,
                           const LabelRules& labels) { options.place = affinity_of(node, node_preferred, labels); });
}

void bind_values(nb::module_& module) {
  nb::class_<Buffer>(module, "Buffer", nb::type_slots(buffer_slots));
  nb::class_<AnyRef>(module, "Ref")
      .def("is_ready", &AnyRef::is_ready)
      .def("read", &read, nb::arg("timeout").none())
      .def("free", [](const AnyRef& ref) {
        const WithoutGil released;
        ref.free();
      });
  nb::class_<Handle>(module, "Handle")
      .def_prop_ro("id", [](const Handle& handle) { return to_string(handle.id()); })
      .def(
          "__eq__",
          [](const Handle& a, const nb::object& b) { return nb::isinstance<Handle>(b) && a == nb::cast<Handle>(b); },
          nb::arg("other").none())
      .def("__hash__", [](const Handle& handle) { return std::hash<ActorId>()(handle.id()); })
      .def("status", &status_of)
      .def("kill", [](const Handle& handle, bool no_restart, double grace_s) {
        const WithoutGil released;
        handle.kill({.no_restart = no_restart, .grace = std::chrono::milliseconds(std::llround(grace_s * 1000))});
      });
  nb::class_<ValueFuture>(module, "Future")
      .def("is_ready", &ValueFuture::is_ready)
      .def("take", &take, nb::arg("timeout").none())
      .def("cancel", [](const ValueFuture& future, bool force) {
        const WithoutGil released;
        future.cancel({.force = force});
      });
  nb::class_<ItemStream>(module, "Stream")
      .def("next", &ItemStream::next, nb::arg("timeout").none())
      .def("close", &ItemStream::close);
  nb::class_<PlacementGroup>(module, "PlacementGroup")
      .def_prop_ro("id", [](const PlacementGroup& group) { return to_string(group.id()); })
      .def("__getstate__",
           [](const PlacementGroup& group) {
             const std::string id = raw(group.id());
             return nb::bytes(id.data(), id.size());
           })
      .def("__setstate__",
           [](PlacementGroup& group, const nb::bytes& id) {
             new (&group) PlacementGroup(id_from_raw<GroupId>({id.c_str(), id.size()}));
           })
      .def("wait", &wait_for_group, nb::arg("timeout").none())
      .def("remove", [](const PlacementGroup& group) {
        const WithoutGil released;
        group.remove().get();
      });
  nb::class_<Completions>(module, "Completions")
      .def(nb::init<>())
      .def_prop_ro("fd", &Completions::fd)
      .def("take", &Completions::take)
      .def("add", &Completions::add);
}

// Binds a function that starts a call of a method: start(actor, method, arguments, futures, timeout).
template <class Start>
void bind_call(nb::module_& module, const char* name, Start start) {
  module.def(
      name,
      [start](const Handle& actor, const std::string& method, const nb::handle& arguments, const Objects& futures,
              std::optional<double> timeout) {
        const Value value = Pack(arguments).value("Python value");
        const auto awaited = futures_of(futures);
        const auto limit = timeout_of(timeout);
        const WithoutGil released;
        return start(actor, method, value, awaited, limit);
      },
      nb::arg("actor"), nb::arg("method"), nb::arg("arguments"), nb::arg("futures"), nb::arg("timeout").none());
}

void bind_functions(nb::module_& module) {
  module.def("start_role", &start_process_role);
  module.def("connect", &connect);
  module.def("shutdown", [] {
    const WithoutGil released;
    if (cluster()) cluster()->shutdown();
    cluster().reset();
  });
  module.def("is_inside_actor", &is_inside_actor);
  module.def("spawn", &spawn);
  module.def("find_actor", &find_actor);
  bind_call(module, "call", &call);
  bind_call(module, "stream", [](const auto&... arguments) { return ItemStream(stream(arguments...)); });
  module.def(
      "placement_group",
      [](const std::vector<std::tuple<double, double, int64_t, std::map<std::string, double>>>& bundles, int strategy,
         const std::string& name, bool detached, int priority, bool wait_if_infeasible) {
        std::vector<Resources> resources;
        for (const auto& [cpus, gpus, memory, custom] : bundles)
          resources.push_back(resources_of(cpus, gpus, memory, custom));
        const WithoutGil released;
        return placement_group(
            resources, static_cast<Strategy>(strategy),
            {.name = name, .detached = detached, .priority = priority, .wait_if_infeasible = wait_if_infeasible});
      });
  module.def("find_placement_group", [](const std::string& name) {
    const WithoutGil released;
    return get_placement_group(name);
  });
  module.def("submit", [](const TaskOptions& options, const nb::handle& code, const nb::handle& arguments,
                          const Objects& futures) {
    const Value code_value = Pack(code).value("Python function");
    const Value value = Pack(arguments).value("Python value");
    const auto awaited = futures_of(futures);
    const WithoutGil released;
    return submit(code_value, value, awaited, options);
  });
  module.def("put", [](const nb::handle& parts, const std::string& type, const std::string& place) {
    const Pack pack(parts);
    Result<AnyRef> ref;
    {
      const WithoutGil released;
      ref = put_parts(pack.parts(), {type, place});
    }
    return value_or_raise(std::move(ref));
  });
  module.def("wait", &wait, nb::arg("things"), nb::arg("count"), nb::arg("timeout").none());
  module.def("context", &context);
  module.def("cluster_resources", [] { return amounts_of(Session::current()->totals().total); });
  module.def("used_resources", [] { return amounts_of(Session::current()->totals().used); });
  module.def("node_count", [] { return Session::current()->totals().nodes; });
  module.def("machine_id", [] { return value_or_raise(machine_id()); });
  module.def("granted_threads", &granted_threads);
  module.def("end_actor", [] {
    const WithoutGil released;
    if (auto ended = Session::current()->kill(self().id, true, kDestructorMax); !ended)
      throw Exception(std::move(ended).error());
  });
  module.def("cancel_requested", &cancel_requested);
}

}  // namespace

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);  // Threads that serve callbacks hold objects until the process ends.
  module.attr("version") = std::string(kVersion);
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Exception& e) {
      try {
        raise(e.error());
      } catch (nb::python_error& raised) {
        raised.restore();
      }
    }
  });
  bind_options(module);
  bind_values(module);
  bind_jobs(module);
  bind_debug(module);
  bind_frames(module);
  bind_host(module);
  bind_functions(module);
  bind_tune(module);
  bind_storage(module);
  bind_train(module);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end_of_interpreter));
}

}  // namespace volador::python
