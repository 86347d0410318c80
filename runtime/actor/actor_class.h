// Registry of actor classes. VOLADOR_ACTOR registers a class before main, so that every process of the executable can
// construct it and call its methods.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/actor/call_context.h"
#include "runtime/actor/deferred.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/stream.h"
#include "runtime/actor/type_name.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"

namespace volador {

// Type-erased method of an actor. Arguments and result are envelopes (serialize/codec.h).
struct ActorMethod {
  std::string name;  // "Counter::add".
  std::function<Result<std::string>(void* object, std::string_view arguments)> invoke;
  bool streams = false;  // The last parameter is a Sink.
};

// An actor class. Immutable once main runs.
struct ActorClass {
  std::string name;
  // By constructor id; the envelope holds that id and the arguments. Exceptions propagate.
  std::map<uint64_t, std::function<Result<std::shared_ptr<void>>(std::string_view arguments)>> constructors;
  std::map<uint64_t, ActorMethod> methods;
  // The methods are tasks: calls that have not begun can be returned to their caller (net::CallConnection::give_back),
  // and an idle actor returns its CPUs.
  bool runs_tasks = false;
  // Set when the class has both save_checkpoint(path) and load_checkpoint(path).
  std::function<void(void* object, const std::filesystem::path& directory)> save_checkpoint;
  std::function<void(void* object, const std::filesystem::path& directory)> load_checkpoint;
};

// The classes of this executable, filled by static initializers (the only global registry).
class ActorClassRegistry {
 public:
  static ActorClassRegistry& instance();

  // Returns the class of this name; creates it if needed.
  ActorClass& declare(std::string_view name);
  const ActorClass* find(std::string_view name) const;
  std::vector<std::string> names() const;

  // Classes that a program finds at run time, as an interpreter does. Called for a class that is not declared, with the
  // envelope of its constructor, on a thread of the host. Set before the first actor; the class is never destroyed.
  using Source = std::function<Result<const ActorClass*>(const std::string& name, std::string_view arguments)>;
  void set_source(Source source) { source_ = std::move(source); }
  // find(), then the source. kNotFound: this program has no class of this name.
  Result<const ActorClass*> load(const std::string& name, std::string_view arguments) const;

 private:
  Source source_;
  std::map<std::string, ActorClass, std::less<>> classes_;
};

// Runs user code and converts exceptions into kApplication with type and text. All user code runs through it.
Result<std::string> guarded(const std::function<Result<std::string>()>& code);

// The methods listed in VOLADOR_ACTOR.
template <auto... Methods>
struct MethodList {};

namespace registration {

template <class M>
struct Signature;
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> {
  using Class = C;
  using Declared = std::decay_t<R>;
  using Return = typename Answered<Declared>::Type;  // For a deferred method: the type of its answer.
  using Arguments = std::tuple<std::decay_t<A>...>;
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R (C::*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) noexcept> : Signature<R (C::*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const noexcept> : Signature<R (C::*)(A...)> {};

template <class Tuple>
inline constexpr bool all_travel = false;
template <class... A>
inline constexpr bool all_travel<std::tuple<A...>> = (Serializable<A> && ...);

template <class Tuple>
struct TupleCodec;
template <class... A>
struct TupleCodec<std::tuple<A...>> {
  static_assert((Serializable<A> && ...),
                "volador: an argument of this method does not travel between processes: a pointer or std::unique_ptr "
                "means nothing in "
                "another one, take the value itself; for a type of your own put VOLADOR_FIELDS(Type, member…) beside "
                "it, or write "
                "volador_encode and volador_decode for it");
  // Resolves references among the arguments: waits until their objects are available.
  static Result<std::tuple<A...>> decode(std::string_view bytes) {
    return codec::read_envelope(bytes, std::tuple<A...>(),
                                [](Decoder& decoder, auto& value) { decode_argument(decoder, value); });
  }
  // Each argument is a value or a reference to one.
  template <class... G>
  static std::string encode(G&&... given) {
    static_assert(sizeof...(G) == sizeof...(A), "volador: the method takes another number of arguments");
    return codec::write_envelope(sizeof...(A),
                                 [&](Encoder& encoder) { (encode_argument<A>(encoder, std::forward<G>(given)), ...); });
  }
};

template <class T, auto M>
ActorMethod plain_method() {
  using S = Signature<decltype(M)>;
  static_assert(Serializable<Travelling<typename S::Return>>,
                "volador: what this method returns does not travel between processes: put VOLADOR_FIELDS(Type, "
                "member…) beside its "
                "type, or write volador_encode and volador_decode for it");
  ActorMethod method;
  method.name = display_name<M>();
  method.invoke = [](void* object, std::string_view bytes) -> Result<std::string> {
    auto arguments = TupleCodec<typename S::Arguments>::decode(bytes);
    if (!arguments) return make_error(std::move(arguments).error());
    auto call = [&](auto&... parts) -> decltype(auto) {
      return (static_cast<T*>(object)->*M)(std::forward<decltype(parts)>(parts)...);
    };
    // Reported by the static_assert above.
    if constexpr (!all_travel<typename S::Arguments> || !Serializable<Travelling<typename S::Return>>) {
      return std::string();
    } else if constexpr (Answered<typename S::Declared>::deferred) {
      auto* context = internal::CallContext::current();
      if (context == nullptr)
        return make_error(ErrorCode::kUnavailable, "a method that returns a volador::Deferred runs in a call only");
      context->defer(std::apply(call, *arguments).answer());
      return std::string();
    } else if constexpr (std::is_void_v<typename S::Return>) {
      std::apply(call, *arguments);
      return to_bytes(std::monostate{});
    } else {
      return encode_answer<typename S::Return>(std::apply(call, *arguments));
    }
  };
  return method;
}

// A method whose last parameter is a Sink.
template <class T, auto M>
ActorMethod streaming_method() {
  using S = Signature<decltype(M)>;
  using Sinks = SinkOf<typename S::Arguments>;
  static_assert(std::is_void_v<typename S::Return>,
                "volador: a method with a Sink gives its results there and returns void");
  static_assert(Serializable<typename Sinks::Item>,
                "volador: what this method streams does not travel between processes: put VOLADOR_FIELDS(Type, "
                "member…) beside its "
                "type, or write volador_encode and volador_decode for it");
  ActorMethod method;
  method.name = display_name<M>();
  method.streams = true;
  method.invoke = [](void* object, std::string_view bytes) -> Result<std::string> {
    auto arguments = TupleCodec<typename Sinks::Others>::decode(bytes);
    if (!arguments) return make_error(std::move(arguments).error());
    const auto* context = internal::CallContext::current();
    if (context == nullptr)
      return make_error(ErrorCode::kUnavailable, "a method with a volador::Sink runs in an actor's process only");
    Sink<typename Sinks::Item> sink(context->stream());
    std::apply([&](auto&... parts) { (static_cast<T*>(object)->*M)(std::forward<decltype(parts)>(parts)..., sink); },
               *arguments);
    return to_bytes(std::monostate{});
  };
  return method;
}

template <class T, auto M>
void add_method(ActorClass& actor_class) {
  using S = Signature<decltype(M)>;
  static_assert(std::is_base_of_v<typename S::Class, T>, "volador: VOLADOR_ACTOR lists a method of another class");
  if constexpr (SinkOf<typename S::Arguments>::exists) {
    actor_class.methods.insert_or_assign(function_id<M>(), streaming_method<T, M>());
  } else {
    actor_class.methods.insert_or_assign(function_id<M>(), plain_method<T, M>());
  }
}

template <class List>
inline constexpr bool defers_any = false;
template <auto... Methods>
inline constexpr bool defers_any<MethodList<Methods...>> =
    (Answered<typename Signature<decltype(Methods)>::Declared>::deferred || ...);

template <class T>
concept HasCheckpoints = requires(T& object, const std::filesystem::path& directory) {
  object.save_checkpoint(directory);
  object.load_checkpoint(directory);
};

template <class T, auto... Methods>
bool register_class(MethodList<Methods...>) {
  ActorClass& actor_class = ActorClassRegistry::instance().declare(type_name<T>());
  (add_method<T, Methods>(actor_class), ...);
  if constexpr (HasCheckpoints<T>) {
    actor_class.save_checkpoint = [](void* object, const std::filesystem::path& directory) {
      static_cast<T*>(object)->save_checkpoint(directory);
    };
    actor_class.load_checkpoint = [](void* object, const std::filesystem::path& directory) {
      static_cast<T*>(object)->load_checkpoint(directory);
    };
  }
  return true;
}

// A constructor of T. Registered before main because spawn<T>(A…) is instantiated in the program.
template <class T, class... A>
struct Constructor {
  static_assert(std::is_constructible_v<T, A...>, "volador: the class has no constructor for these arguments");
  static_assert((Serializable<A> && ...),
                "volador: an argument of this constructor does not travel between processes: put VOLADOR_FIELDS(Type, "
                "member…) beside "
                "its type, or write volador_encode and volador_decode for it");
  static constexpr uint64_t id() { return names::fnv1a(type_name<std::tuple<T, A...>>()); }

  static bool enlist() {
    ActorClassRegistry::instance()
        .declare(type_name<T>())
        .constructors.insert_or_assign(id(), [](std::string_view bytes) -> Result<std::shared_ptr<void>> {
          auto arguments = tuple_from_bytes<uint64_t, A...>(bytes);
          if (!arguments) return make_error(std::move(arguments).error());
          return std::apply(
              [](uint64_t, auto&... parts) -> std::shared_ptr<void> {
                return std::make_shared<T>(std::move(parts)...);
              },
              *arguments);
        });
    return true;
  }
  static inline const bool enlisted = enlist();
};

template <auto M, class List>
inline constexpr bool lists = false;
template <auto M, auto... Methods>
inline constexpr bool lists<M, MethodList<Methods...>> = ([]<auto L>() {
  if constexpr (std::is_same_v<decltype(M), decltype(L)>) return M == L;
  return false;
}.template operator()<Methods>() || ...);

template <class T>
concept Actor = requires {
  volador_actor_methods(static_cast<const T*>(nullptr));
};

}  // namespace registration
}  // namespace volador

// VOLADOR_ACTOR(Counter, &Counter::add, …): next to the class, in its namespace, in a header or source file.
#define VOLADOR_ACTOR(Type, ...)                                                                               \
  [[maybe_unused]] inline ::volador::MethodList<__VA_ARGS__> volador_actor_methods(const Type*) { return {}; } \
  [[maybe_unused]] static const bool VOLADOR_CONCAT(volador_actor_registered_, __COUNTER__) =                  \
      ::volador::registration::register_class<Type>(::volador::MethodList<__VA_ARGS__>{})
#define VOLADOR_CONCAT(a, b) VOLADOR_CONCAT_STEP(a, b)
#define VOLADOR_CONCAT_STEP(a, b) a##b
