// Move-only function. A capture of up to kPointers pointers is stored without allocation.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace volador {

template <class Signature, size_t kPointers = 4>
class UniqueFunction;

template <class R, class... A, size_t kPointers>
class UniqueFunction<R(A...), kPointers> {
 public:
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, UniqueFunction> && std::is_invocable_r_v<R, std::decay_t<F>&, A...>)
      UniqueFunction(F&& function) {
    using Function = std::decay_t<F>;
    if constexpr (std::is_same_v<Function, std::function<R(A...)>>) {
      if (!function) return;  // Stays empty.
    }
    if constexpr (fits<Function>) {
      new (room_) Function(std::forward<F>(function));
      actions_ = &InPlace<Function>::kActions;
    } else {
      new (room_) Function*(new Function(std::forward<F>(function)));
      actions_ = &OnHeap<Function>::kActions;
    }
  }
  UniqueFunction(UniqueFunction&& other) noexcept { take(other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  UniqueFunction(const UniqueFunction&) = delete;
  UniqueFunction& operator=(const UniqueFunction&) = delete;
  ~UniqueFunction() { reset(); }

  explicit operator bool() const { return actions_ != nullptr; }
  // Must not be empty.
  R operator()(A... arguments) { return actions_->call(room_, std::forward<A>(arguments)...); }

 private:
  static constexpr size_t kRoom = kPointers * sizeof(void*);
  template <class F>
  static constexpr bool fits = sizeof(F) <= kRoom &&
                               alignof(F) <= alignof(void*) && std::is_nothrow_move_constructible_v<F>;

  struct Actions {
    R (*call)(void* room, A&&... arguments);
    void (*move)(void* from, void* to) noexcept;  // `from` is empty afterwards.
    void (*destroy)(void* room) noexcept;
  };
  // Named functions instead of lambdas: g++ 12 gives lambdas in the initializer of a member template one symbol for all
  // F.
  template <class F>
  struct InPlace {
    static F& in(void* room) { return *std::launder(static_cast<F*>(room)); }
    static R call(void* room, A&&... arguments) { return in(room)(std::forward<A>(arguments)...); }
    static void move(void* from, void* to) noexcept {
      new (to) F(std::move(in(from)));
      in(from).~F();
    }
    static void destroy(void* room) noexcept { in(room).~F(); }
    static constexpr Actions kActions{call, move, destroy};
  };
  template <class F>
  struct OnHeap {
    static F*& in(void* room) { return *std::launder(static_cast<F**>(room)); }
    static R call(void* room, A&&... arguments) { return (*in(room))(std::forward<A>(arguments)...); }
    static void move(void* from, void* to) noexcept { new (to) F*(in(from)); }
    static void destroy(void* room) noexcept { delete in(room); }
    static constexpr Actions kActions{call, move, destroy};
  };

  void take(UniqueFunction& other) noexcept {
    actions_ = std::exchange(other.actions_, nullptr);
    if (actions_ != nullptr) actions_->move(other.room_, room_);
  }
  void reset() noexcept {
    if (actions_ != nullptr) std::exchange(actions_, nullptr)->destroy(room_);
  }

  alignas(void*) std::byte room_[kRoom];
  const Actions* actions_ = nullptr;
};

}  // namespace volador
