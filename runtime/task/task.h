// Functions as tasks: volador::task<&square>(7).submit() runs square(7) in another process of the cluster.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/call_context.h"
#include "runtime/actor/exception_kinds.h"
#include "runtime/actor/future.h"
#include "runtime/actor/lending.h"
#include "runtime/actor/placement_group.h"
#include "runtime/clock.h"
#include "runtime/task/task_origin.h"
#include "runtime/task/task_submitter.h"
#include "runtime/task/task_time.h"

namespace volador {

namespace registration {

template <class F>
struct FunctionSignature;
template <class F>
inline constexpr bool is_function = false;
template <class R, class... A>
inline constexpr bool is_function<R (*)(A...)> = true;
template <class R, class... A>
inline constexpr bool is_function<R (*)(A...) noexcept> = true;
template <class R, class... A>
struct FunctionSignature<R (*)(A...)> {
  using Return = std::decay_t<R>;
  using Arguments = std::tuple<std::decay_t<A>...>;
};
template <class R, class... A>
struct FunctionSignature<R (*)(A...) noexcept> : FunctionSignature<R (*)(A...)> {};

// Whether task<F> accepts F: a function with serializable arguments.
template <auto F>
consteval bool can_be_task() {
  if constexpr (is_function<decltype(F)>) {
    return all_travel<typename FunctionSignature<decltype(F)>::Arguments>;
  } else {
    return false;
  }
}
inline int no_function() { return 0; }  // Replaces an invalid F, so that only one error is reported.

// A function registered as a task, before main because task<F> is instantiated in the program.
template <auto F>
struct TaskFunction {
  using S = FunctionSignature<decltype(F)>;
  static_assert(Serializable<Travelling<typename S::Return>>,
                "volador: what this function returns does not travel between processes: put VOLADOR_FIELDS(Type, "
                "member…) beside its "
                "type, or write volador_encode and volador_decode for it");

  static Result<std::string> invoke(void*, std::string_view bytes) {
    const SystemClock clock;
    const BootTime begun = clock.now();
    auto result = run(bytes);
    if (result) put_time_taken(*result, clock.now() - begun);
    return result;
  }
  static bool enlist() {
    (void)Constructor<TaskRunner>::enlisted;
    ActorClass& runner = ActorClassRegistry::instance().declare(type_name<TaskRunner>());
    runner.runs_tasks = true;
    runner.methods.insert_or_assign(function_id<F>(), ActorMethod{display_name<F>(), &invoke});
    return true;
  }
  static inline const bool enlisted = enlist();

 private:
  static Result<std::string> run(std::string_view bytes) {
    auto arguments = TupleCodec<typename S::Arguments>::decode(bytes);
    if (!arguments) return make_error(std::move(arguments).error());
    const internal::TaskOnThread here;
    const auto call = [](auto&... parts) -> decltype(auto) { return F(std::forward<decltype(parts)>(parts)...); };
    if constexpr (std::is_void_v<typename S::Return>) {
      std::apply(call, *arguments);
      return to_bytes(std::monostate{});
    } else {
      return encode_answer<typename S::Return>(std::apply(call, *arguments));
    }
  }
};

template <class T>
inline constexpr bool is_future = false;
template <class T>
inline constexpr bool is_future<Future<T>> = true;

// An argument as passed: a value, a future of it, or a reference to it.
template <class T>
struct TaskArgument {
  std::optional<T> value;
  Future<T> future;
  AnyRef ref;

  template <class A>
  static TaskArgument from(A&& given) {
    TaskArgument made;
    if constexpr (is_future<std::decay_t<A>>) {
      static_assert(std::is_same_v<std::decay_t<A>, Future<T>>,
                    "volador: this future brings another type than the function takes");
      made.future = std::forward<A>(given);
    } else if constexpr (is_ref<std::decay_t<A>> && !is_ref<T>) {
      static_assert(std::is_same_v<std::decay_t<A>, Ref<T>>,
                    "volador: this reference is to another type than the function takes");
      made.ref = given.any();
    } else {
      static_assert(std::is_constructible_v<T, A&&>, "volador: the function takes other arguments than these");
      made.value.emplace(std::forward<A>(given));
    }
    return made;
  }
  // `may_block`: a large value may wait for room in the object store.
  void encode_into(Encoder& encoder, bool may_block) const {
    if (ref.is_valid()) return encode(encoder, ref);
    if (may_block) return encode_argument_value<T>(encoder, *value);
    encode(encoder, *value);
  }
};

template <class Tuple>
struct TaskArguments;
template <class... A>
struct TaskArguments<std::tuple<A...>> {
  using Type = std::tuple<TaskArgument<A>...>;
};

}  // namespace registration

namespace internal {

// The reply of a task, which can be cancelled before its arguments are available.
class TaskReply final : public Reply {
 public:
  void cancel(const CancelOptions& options) override {
    std::shared_ptr<TaskSubmitter> submitter;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      cancelled_ = options;
      submitter = submitter_.lock();
    }
    if (submitter) return submitter->cancel(task_, options.force);
    set(make_error(ErrorCode::kCancelled, "the task was cancelled before its arguments were there"));
  }
  const char* not_there_yet() const override {
    return "the task has not ended yet; it goes on: wait longer, or end it by cancel()";
  }
  // False: cancelled; must not be submitted.
  bool is_wanted() {
    const std::lock_guard<std::mutex> hold(mutex_);
    return !cancelled_;
  }
  void submitted(const std::shared_ptr<TaskSubmitter>& submitter, TaskId task) {
    std::optional<CancelOptions> cancelled;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      task_ = task;
      submitter_ = submitter;
      cancelled = cancelled_;
    }
    if (cancelled) submitter->cancel(task, cancelled->force);
  }

 private:
  std::mutex mutex_;
  std::optional<CancelOptions> cancelled_;
  TaskId task_{};
  std::weak_ptr<TaskSubmitter> submitter_;  // Set once submitted.
};

}  // namespace internal

// Options of a task, then submit(). Returned by task<&f>(…).
template <auto F>
class TaskBuilder {
 public:
  using Return = typename registration::TaskFunction<F>::S::Return;
  using Plain = typename registration::TaskFunction<F>::S::Arguments;
  using Given = typename registration::TaskArguments<Plain>::Type;

  explicit TaskBuilder(Given arguments) : arguments_(std::move(arguments)) {
    request_.function = function_id<F>();
    request_.name = display_name<F>();
  }

  // Resources that the task reserves; it waits for a node that has them. Default: one CPU. kInfeasible if no node could
  // ever have them.
  TaskBuilder&& resources(const Resources& resources) && {
    resources_ = resources;
    return std::move(*this);
  }
  // Restricts the task to nodes whose label has this value, or matches label_in, label_not_in, label_exists or
  // label_absent. Repeatable; all must match.
  TaskBuilder&& label(std::string key, LabelValue value) && {
    request_.place.wishes.labels.push_back({std::move(key), std::move(value)});
    return std::move(*this);
  }
  // Restricts the task to the node of this name.
  TaskBuilder&& node(std::string name) && {
    request_.place.wishes.node = std::move(name);
    request_.place.wishes.node_preferred = false;
    return std::move(*this);
  }
  // Prefers this node while it has room.
  TaskBuilder&& prefer_node(std::string name) && {
    request_.place.wishes.node = std::move(name);
    request_.place.wishes.node_preferred = true;
    return std::move(*this);
  }
  // Runs the task in a bundle of the group, whose resources it uses.
  TaskBuilder&& in(const PlacementGroup& group, int bundle = kAnyBundle) && {
    request_.place.group = group.id();
    request_.place.bundle = bundle;
    return std::move(*this);
  }
  // Name in messages. Default: the function's.
  TaskBuilder&& named(std::string name) && {
    request_.name = std::move(name);
    return std::move(*this);
  }
  // Number of retries after the death of its process; -1: unlimited. Default: 3.
  TaskBuilder&& max_retries(int retries) && {
    request_.max_retries = retries;
    return std::move(*this);
  }
  // Also retries if the task throws one of these types or a derived one; max_retries counts both.
  template <class... E>
  TaskBuilder&& retry_on() && {
    static_assert(sizeof...(E) > 0, "volador: retry_on needs the types of exceptions: retry_on<std::runtime_error>()");
    (void)(internal::ExceptionKind<E>::enlisted && ...);
    (request_.retry_on.emplace_back(type_name<E>()), ...);
    return std::move(*this);
  }

  // Does not wait. The task starts when the futures among its arguments are complete; if one fails, its error is the
  // result.
  Future<Return> submit() && {
    auto set = ResourceSet::from(resources_);
    if (!set) throw Exception(std::move(set).error());
    if (request_.max_retries < -1) {
      throw Exception(Error{ErrorCode::kInvalidArgument, "max_retries: expected -1 (without limit) or more, got " +
                                                             std::to_string(request_.max_retries)});
    }
    request_.resources = std::move(*set);
    if (auto checked = check(request_.place.wishes); !checked) throw Exception(std::move(checked).error());
    auto reply = std::make_shared<internal::TaskReply>();
    if (auto* context = internal::CallContext::current()) context->adopt(reply);
    const auto launch = std::make_shared<Launch>(std::move(request_), std::move(arguments_), reply);
    launch->begin(std::make_index_sequence<std::tuple_size_v<Plain>>());
    return Future<Return>(std::move(reply));
  }

 private:
  // Waits for the arguments.
  struct Launch : std::enable_shared_from_this<Launch> {
    Launch(TaskRequest task, Given given, std::shared_ptr<internal::TaskReply> to)
        : request(std::move(task)),
          arguments(std::move(given)),
          reply(std::move(to)),
          submitter(TaskSubmitter::current()) {}

    template <size_t... I>
    void begin(std::index_sequence<I...> all) {
      (await<I>(), ...);
      arrived(all, true);  // The count starts at one, so that it cannot reach zero before all arguments were visited.
    }
    template <size_t I>
    void await() {
      auto& argument = std::get<I>(arguments);
      if (argument.value || argument.ref.is_valid()) return;
      ++missing;
      argument.future.then([self = this->shared_from_this()](auto result) {
        if (result) {
          std::get<I>(self->arguments).value.emplace(std::move(*result));
        } else {
          self->reply->set(make_error(std::move(result).error()));
          self->failed = true;
        }
        self->arrived(std::make_index_sequence<std::tuple_size_v<Plain>>(), false);
      });
    }
    // `on_caller`: on the caller's thread, which may block, unlike runtime threads.
    template <size_t... I>
    void arrived(std::index_sequence<I...>, bool on_caller) {
      if (--missing > 0 || failed || !reply->is_wanted()) return;
      RefScope scope(RefScope::Kind::kSend);
      request.arguments = codec::write_envelope(
          sizeof...(I), [&](Encoder& encoder) { (std::get<I>(arguments).encode_into(encoder, on_caller), ...); });
      using Value = typename Future<Return>::Value;
      if (registration::brings_refs<Return> || !scope.objects().empty()) return run_with_origin(scope);
      const TaskId id =
          submitter->submit(std::move(request), [to = reply, pins = scope.take()](Result<std::string> result) {
            auto references = registration::claim_references<Value>(result);
            to->set(std::move(result), std::move(references));
          });
      reply->submitted(submitter, id);
    }
    // Runs a task whose arguments or results contain references that may need reconstruction.
    void run_with_origin(RefScope& scope) {
      internal::TaskWays ways;
      ways.submit = [to = std::weak_ptr<internal::TaskReply>(reply), with = std::weak_ptr<TaskSubmitter>(submitter)](
                        TaskRequest wanted, std::function<void(Result<std::string>)> done) {
        const auto by = with.lock();
        if (!by) return done(make_error(ErrorCode::kCancelled, "this process has left the cluster"));
        const TaskId id = by->submit(std::move(wanted), std::move(done));
        if (const auto still = to.lock()) still->submitted(by, id);  // A repeated run is cancelled like the last one.
      };
      ways.owner = Session::current()->name_as_owner();
      ways.claim = &registration::claim_objects<typename Future<Return>::Value>;
      auto objects = scope.objects();
      internal::run_with_origin(
          std::move(ways), std::move(request), std::move(objects),
          [to = reply, pins = scope.take()](Result<std::string> result, std::shared_ptr<const void> references) {
            to->set(std::move(result), std::move(references));
          });
    }

    TaskRequest request;
    Given arguments;
    std::shared_ptr<internal::TaskReply> reply;
    std::shared_ptr<TaskSubmitter> submitter;
    std::atomic<size_t> missing{1};
    std::atomic<bool> failed{false};
  };

  TaskRequest request_;
  Resources resources_{.cpus = 1};
  Given arguments_;
};

// task<&square>(7).resources({.cpus = 2}).submit(). Arguments are values, futures of them, or references to them.
// An overloaded function is named by its signature: task<static_cast<int (*)(int)>(&square)>(7).
template <auto F, class... A>
requires(registration::can_be_task<F>()) TaskBuilder<F> task(A&&... arguments) {
  using Function = registration::TaskFunction<F>;
  (void)Function::enlisted;
  static_assert(sizeof...(A) == std::tuple_size_v<typename Function::S::Arguments>,
                "volador: the function takes another number of arguments");
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return TaskBuilder<F>(typename TaskBuilder<F>::Given(
        registration::TaskArgument<std::tuple_element_t<I, typename Function::S::Arguments>>::from(
            std::forward<A>(arguments))...));
  }
  (std::index_sequence_for<A...>());
}
template <auto F, class... A>
requires(!registration::can_be_task<F>()) TaskBuilder<&registration::no_function> task(A&&...) {
  static_assert(!std::is_class_v<decltype(F)>,
                "volador: task<…> takes the address of a function that has a name, as task<&square>(7): other "
                "processes cannot find a lambda or a "
                "function object; write a function and pass what the lambda captured as its arguments");
  static_assert(
      !std::is_member_function_pointer_v<decltype(F)>,
      "volador: task<…> takes the address of a free function, as task<&square>(7): a method needs an object, make an "
      "actor of its class by volador::actor<T>() and call it by call<&T::method>()");
  static_assert(!registration::is_function<decltype(F)>,
                "volador: an argument of this task's function does not travel between processes: a pointer or "
                "std::unique_ptr means "
                "nothing in another one, take the value itself; for a type of your own put VOLADOR_FIELDS(Type, "
                "member…) beside it, or "
                "write volador_encode and volador_decode for it");
  static_assert(std::is_class_v<decltype(F)> || std::is_member_function_pointer_v<decltype(F)> ||
                    registration::is_function<decltype(F)>,
                "volador: task<…> takes the address of a function, as task<&square>(7)");
  return TaskBuilder<&registration::no_function>({});
}

}  // namespace volador
