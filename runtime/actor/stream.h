// Results that arrive while a method is running:
//
//   void Reader::rows(std::string path, volador::Sink<Row>& out) { …  out.push(row); … }  // listed in VOLADOR_ACTOR
//   for (const Row& row : reader.stream<&Reader::rows>(path)) …
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "runtime/actor/ref.h"
#include "runtime/actor/stream_source.h"

namespace volador {

// Receives a method's results one by one.
template <class T>
class Sink {
 public:
  explicit Sink(internal::StreamSource& source) : source_(source) {}

  // Waits while the reader is more than 1 MiB or 10,000 items behind. Throws kCancelled when the reader is gone; do not
  // catch it.
  void push(const T& item) {
    if (auto pushed = source_.push(registration::encode_answer<T>(item)); !pushed)
      throw Exception(std::move(pushed).error());
  }

 private:
  internal::StreamSource& source_;
};

namespace internal {

// Type-erased reader of a stream. Thread safe.
class StreamReader : public std::enable_shared_from_this<StreamReader> {
 public:
  struct Item {
    std::string bytes;
    std::shared_ptr<const void> references;
  };
  using Claim = std::shared_ptr<const void> (*)(const Result<std::string>& item);

  static std::shared_ptr<StreamReader> open(const ActorId& actor, uint64_t method, std::string arguments,
                                            std::chrono::nanoseconds timeout, Claim claim,
                                            std::shared_ptr<const void> pins);
  StreamReader(std::shared_ptr<Session> session, const ActorId& actor, Claim claim)
      : session_(std::move(session)), actor_(actor), claim_(claim) {}

  // Waits for the next item; nothing: the method has returned. Errors of the method or the connection follow the items.
  Result<std::optional<Item>> next();
  // Waits until next() would not wait; false: the deadline passed.
  bool wait_until(const std::optional<std::chrono::steady_clock::time_point>& deadline);
  // Stops reading: the method's next push throws.
  void close();

 private:
  void fetch();
  void fetched(Result<std::string> result);
  void ended(Result<std::string> result);
  bool wants_more() const {
    return !fetching_ && !end_ && items_.size() < StreamSource::kItemsAhead && bytes_ < StreamSource::kBytesAhead;
  }

  const std::shared_ptr<Session> session_;
  const ActorId actor_;
  const Claim claim_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t call_ = 0;
  std::deque<Item> items_;
  size_t bytes_ = 0;
  bool fetching_ = false;
  std::optional<Result<void>> end_;
};

}  // namespace internal

// Results of a method as they arrive. Movable; read by one thread. Early destruction cancels the method.
template <class T>
class Stream {
 public:
  explicit Stream(std::shared_ptr<internal::StreamReader> reader) : reader_(std::move(reader)) {}
  ~Stream() {
    if (reader_) reader_->close();
  }
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&& other) noexcept {
    if (reader_) reader_->close();
    reader_ = std::move(other.reader_);
    return *this;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Waits for the next item; nothing: the method has returned. Throws the method's exception, kActorDied, kTimeout…,
  // after the preceding items.
  std::optional<T> next() {
    auto item = reader_->next();
    if (!item) throw Exception(std::move(item).error());
    if (!*item) return std::nullopt;
    auto value = from_bytes<T>((*item)->bytes);
    if (!value) throw Exception(std::move(value).error());
    return std::move(*value);
  }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;

    Iterator() = default;
    explicit Iterator(Stream& stream) : stream_(&stream) { ++*this; }
    const T& operator*() const { return *item_; }
    const T* operator->() const { return &*item_; }
    Iterator& operator++() {
      item_ = stream_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !item_; }

   private:
    Stream* stream_ = nullptr;
    std::optional<T> item_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<internal::StreamReader> reader_;
};

namespace registration {

template <class T>
struct SinkItem {
  static constexpr bool exists = false;
  using Type = void;
};
template <class T>
struct SinkItem<Sink<T>> {
  static constexpr bool exists = true;
  using Type = T;
};

// Splits a method's parameters: whether the last one is a sink, its item type, and the other parameters.
template <class Tuple>
struct SinkOf {
  static constexpr bool exists = false;
};
template <class... A>
requires(sizeof...(A) > 0) struct SinkOf<std::tuple<A...>> {
  using Last = std::tuple_element_t<sizeof...(A) - 1, std::tuple<A...>>;
  static constexpr bool exists = SinkItem<Last>::exists;
  using Item = typename SinkItem<Last>::Type;

  template <size_t... I>
  static std::tuple<std::tuple_element_t<I, std::tuple<A...>>...> without_last(std::index_sequence<I...>);
  using Others = decltype(without_last(std::make_index_sequence<sizeof...(A) - 1>()));
};

}  // namespace registration
}  // namespace volador
