// Registry of the trainables of an executable by name, identical in every process started from it; and the types that
// can be registered.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "runtime/actor/type_name.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"
#include "tune/execution/trainable_host.h"

namespace volador::tune {

// Filled by static initialisers.
class TrainableRegistry {
 public:
  // The argument is an envelope with the values of with_parameters. May throw exceptions of the user's constructor.
  using Factory = std::function<Result<std::unique_ptr<TrainableHost>>(std::string_view parameters)>;

  static TrainableRegistry& instance();
  // Returns the registered name: `name`, or `name#2` if that is taken (two lambdas in one function have the same
  // spelling).
  std::string add(std::string_view name, Factory factory);
  // kNotFound: names the registered trainables.
  Result<std::unique_ptr<TrainableHost>> make(const std::string& name, std::string_view parameters) const;

 private:
  std::map<std::string, Factory> factories_;
};

// A trainable with its parameters and resources: the result of with_parameters and with_resources, and the argument of
// tune::run.
struct TrainableRef {
  std::string name;        // Name in the registry.
  std::string label;       // Display name; default name of the experiment.
  std::string parameters;  // Envelope.
  std::optional<Resources> resources = std::nullopt;
  // Bundles of each trial's placement group, for a trainable that knows them itself; see RunOptions::bundles_per_trial.
  std::vector<Resources> bundles = {};
};

template <class T>
concept TrainableClass = std::derived_from<T, Trainable>;

namespace trainables {

// Each error is reported by one static_assert; returns false after reporting it.
template <class... P>
consteval bool check_parameters() {
  constexpr bool travel = (Serializable<P> && ...);
  static_assert(
      travel,
      "volador: a parameter does not travel between processes: a pointer or std::unique_ptr means nothing in another "
      "one, give the "
      "value itself; for a type of your own put VOLADOR_FIELDS(Type, member…) beside it, or write volador_encode and "
      "volador_decode for it");
  return travel;
}
template <auto F, class... P>
consteval bool check_function() {
  constexpr bool callable = std::invocable<decltype(F), const Config&, P&...>;
  static_assert(callable,
                "volador: a trial's function takes (const tune::Config&) and then what tune::with_parameters gives it");
  return callable;
}
template <class T, class... P>
consteval bool check_class() {
  constexpr bool constructible = std::is_constructible_v<T, P...>;
  static_assert(constructible, "volador: the class has no constructor for what tune::with_parameters gives it");
  return constructible;
}

template <class Call, class... P>
TrainableRegistry::Factory function_factory(Call call) {
  return [call](std::string_view bytes) -> Result<std::unique_ptr<TrainableHost>> {
    auto parameters = tuple_from_bytes<P...>(bytes);
    if (!parameters) return make_error(std::move(parameters).error());
    auto shared = std::make_shared<std::tuple<P...>>(std::move(*parameters));
    return host_of_function([call, shared](const Config& config) {
      std::apply([&](auto&... values) { call(config, values...); }, *shared);
    });
  };
}

template <auto F, class... P>
struct FunctionEntry {
  static std::string enlist() {
    if constexpr (check_function<F, P...>()) {
      const auto call = [](const Config& config, P&... parameters) { (void)F(config, parameters...); };
      return TrainableRegistry::instance().add(function_name<F>(), function_factory<decltype(call), P...>(call));
    }
    return {};
  }
  static inline const std::string name = enlist();
};

// A lambda without captures, passed as an argument; its type identifies it.
template <class F>
struct LambdaEntry {
  static std::string enlist() {
    const auto call = [](const Config& config) { (void)F{}(config); };
    return TrainableRegistry::instance().add(type_name<F>(), function_factory<decltype(call)>(call));
  }
  static inline const std::string name = enlist();
};

template <TrainableClass T, class... P>
struct ClassEntry {
  static std::string enlist() {
    if constexpr (check_class<T, P...>()) {
      return TrainableRegistry::instance().add(
          type_name<T>(), [](std::string_view bytes) -> Result<std::unique_ptr<TrainableHost>> {
            auto parameters = tuple_from_bytes<P...>(bytes);
            if (!parameters) return make_error(std::move(parameters).error());
            return host_of_class(std::apply(
                [](auto&... values) -> std::unique_ptr<Trainable> { return std::make_unique<T>(std::move(values)...); },
                *parameters));
          });
    }
    return {};
  }
  static inline const std::string name = enlist();
};

template <class T>
using Owned = std::conditional_t<std::is_convertible_v<T, std::string> && std::is_pointer_v<std::decay_t<T>>,
                                 std::string, std::decay_t<T>>;

// "shop::TrainDigits" → "TrainDigits", "&train" → "train", a lambda → "trial".
std::string label_of(std::string_view name);

}  // namespace trainables

template <class T>
const std::string& registered_class() {
  static_assert(TrainableClass<T>, "volador: derive the class from tune::Trainable");
  if constexpr (TrainableClass<T>) {
    return trainables::ClassEntry<T>::name;
  } else {
    static const std::string none;
    return none;
  }
}

// tune::run(tune::with_parameters<&train>(data, 3), {…}): each trial's process gets a copy of the values; a function
// takes them after the configuration, a class in its constructor.
template <auto F, class... P>
TrainableRef with_parameters(P&&... parameters) {
  if constexpr (trainables::check_parameters<trainables::Owned<P>...>()) {
    using Entry = trainables::FunctionEntry<F, trainables::Owned<P>...>;
    return {Entry::name, trainables::label_of(function_name<F>()),
            to_bytes<trainables::Owned<P>...>(trainables::Owned<P>(std::forward<P>(parameters))...)};
  }
  return {};
}
template <TrainableClass T, class... P>
TrainableRef with_parameters(P&&... parameters) {
  if constexpr (trainables::check_parameters<trainables::Owned<P>...>()) {
    using Entry = trainables::ClassEntry<T, trainables::Owned<P>...>;
    return {Entry::name, trainables::label_of(type_name<T>()),
            to_bytes<trainables::Owned<P>...>(trainables::Owned<P>(std::forward<P>(parameters))...)};
  }
  return {};
}

// Attaches the resources of each trial to the trainable, instead of using resources_per_trial.
template <auto F>
TrainableRef with_resources(const Resources& resources) {
  TrainableRef ref = with_parameters<F>();
  ref.resources = resources;
  return ref;
}
template <TrainableClass T>
TrainableRef with_resources(const Resources& resources) {
  TrainableRef ref = with_parameters<T>();
  ref.resources = resources;
  return ref;
}
inline TrainableRef with_resources(TrainableRef ref, const Resources& resources) {
  ref.resources = resources;
  return ref;
}

}  // namespace volador::tune

// Registers the class in every process of the program; placed beside the class, in its namespace. tune::run<T>
// registers T itself; the macro is for a class that only another source file runs.
#define VOLADOR_TRAINABLE(Type)                                                                     \
  [[maybe_unused]] static const std::string& VOLADOR_TUNE_CONCAT(volador_trainable_, __COUNTER__) = \
      ::volador::tune::registered_class<Type>()
#define VOLADOR_TUNE_CONCAT(a, b) VOLADOR_TUNE_CONCAT_STEP(a, b)
#define VOLADOR_TUNE_CONCAT_STEP(a, b) a##b
