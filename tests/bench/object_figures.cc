// Object throughput: put compared with memcpy, get, and arguments.
#include <volador/volador.h>

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <thread>

#include "runtime/actor/math_threads.h"
#include "runtime/store/large_copy.h"
#include "tests/bench/figure.h"

namespace volador::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kGigabyteOfDoubles = kGigabyte / sizeof(double);

class Reader {
 public:
  // Maps the whole array and reads one number.
  double first(const Array<double>& numbers) const { return numbers[0]; }
  int64_t same(int64_t value) const { return value; }
  size_t size(const Array<uint8_t>& bytes) const { return bytes.size(); }
  size_t count(const std::vector<float>& numbers) const { return numbers.size(); }
};
VOLADOR_ACTOR(Reader, &Reader::first, &Reader::same, &Reader::size, &Reader::count);

double gigabytes_a_second(const std::function<void()>& once) {
  const auto begin = Clock::now();
  once();
  return static_cast<double>(kGigabyte) / 1e9 / seconds_since(begin);
}

// memcpy split among threads.
void copy_by(size_t threads, double* to, const double* from) {
  std::vector<std::jthread> others;
  const size_t share = kGigabyteOfDoubles / threads;
  for (size_t at = 1; at < threads; ++at)
    others.emplace_back([=] { std::memcpy(to + at * share, from + at * share, share * sizeof(double)); });
  std::memcpy(to, from, share * sizeof(double));
}

Measured put_1gb(bool warm) {
  const auto threads = static_cast<size_t>(copy_threads(kGigabyte, granted_threads()));
  Measured measured;
  std::vector<double> alone;
  const std::vector<double> values(kGigabyteOfDoubles, 1.5);
  const auto put_once = [&] { (void)put(values); };
  const auto fresh = [] { return std::unique_ptr<double[]>(new double[kGigabyteOfDoubles]); };
  auto target = fresh();
  std::memcpy(target.get(), values.data(), kGigabyte);
  if (warm) put_once();
  for (int run = 0; run < (warm ? 5 : 1); ++run) {
    measured.values.push_back(gigabytes_a_second(put_once));
    if (!warm) target = fresh();
    measured.baselines.push_back(gigabytes_a_second([&] { copy_by(threads, target.get(), values.data()); }));
    if (!warm) target = fresh();
    alone.push_back(gigabytes_a_second([&] { copy_by(1, target.get(), values.data()); }));
  }
  measured.note = fmt::format("memcpy by {} threads, as put has them, into {}; by one {:.1f} GB/s", threads,
                              warm ? "memory that was written before" : "fresh memory", median(alone));
  return measured;
}

// A process that has not seen the object before reads it in place: the time does not depend on the size.
Measured get_1gb() {
  Measured measured{.note = "the same of 100 kB"};
  const auto reader = actor<Reader>().spawn();
  const auto time = [&](const Ref<Array<double>>& ref) {
    const auto begin = Clock::now();
    reader.call<&Reader::first>(ref).get();
    return seconds_since(begin) * 1e6;
  };
  const auto make = [](size_t count) {
    ArrayDraft<double> draft(count);
    std::fill(draft.span().begin(), draft.span().end(), 1.0);
    return std::move(draft).put();
  };
  time(make(12'500));
  for (int run = 0; run < 5; ++run) {
    measured.values.push_back(time(make(kGigabyteOfDoubles)));
    measured.baselines.push_back(time(make(12'500)));
  }
  reader.kill();
  return measured;
}

// Passes 4 MB of numbers by value to an actor of this node, one call at a time.
Measured call_argument_4mb() {
  constexpr size_t kNumbers = 1'000'000;
  constexpr double kGigabytes = kNumbers * sizeof(float) / 1e9;
  constexpr int kCalls = 50;
  Measured measured{.note = "memcpy of the same bytes into memory that was written before"};
  const auto reader = actor<Reader>().spawn();
  const std::vector<float> numbers(kNumbers, 1.5F);
  std::vector<float> target(kNumbers);
  for (int i = 0; i < 5; ++i) reader.call<&Reader::count>(numbers).get();
  for (int run = 0; run < 5; ++run) {
    auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) reader.call<&Reader::count>(numbers).get();
    measured.values.push_back(kCalls * kGigabytes / seconds_since(begin));
    begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) {
      std::memcpy(target.data(), numbers.data(), kNumbers * sizeof(float));
      asm volatile("" : : "r"(target.data()) : "memory");  // Prevents elimination of the copy.
    }
    measured.baselines.push_back(kCalls * kGigabytes / seconds_since(begin));
  }
  reader.kill();
  return measured;
}

Measured rate(int count, const std::function<void()>& once) {
  Measured measured;
  for (int i = 0; i < count / 10; ++i) once();
  for (int run = 0; run < 5; ++run) {
    const auto begin = Clock::now();
    for (int i = 0; i < count; ++i) once();
    measured.values.push_back(count / seconds_since(begin));
  }
  return measured;
}

Measured put_small() {
  return rate(200'000, [] { (void)put(0); });
}
Measured get_small() {
  return rate(200'000, [ref = put(0)] { (void)ref.get(); });
}
Measured put_100kb() {
  return rate(5'000, [bytes = std::vector<uint8_t>(100'000, 1)] { (void)put(bytes); });
}

// Four actors, 1,000 calls in flight in total, each with an argument that was put before.
template <auto M, class R>
Measured calls_with(const R& argument) {
  std::vector<ActorHandle<Reader>> readers;
  for (int i = 0; i < 4; ++i) readers.push_back(actor<Reader>().spawn());
  for (const auto& reader : readers) reader.call<M>(argument).get();
  Measured measured{.note = "the same calls with a number"};
  const auto round = [&](const auto& call) {
    constexpr size_t kCalls = 20'000;
    std::vector<decltype(call(readers[0]))> under_way;
    under_way.reserve(1'000);
    const auto begin = Clock::now();
    for (size_t i = 0; i < kCalls; ++i) {
      under_way.push_back(call(readers[i % readers.size()]));
      if (under_way.size() < 1'000) continue;
      for (const auto& future : under_way) future.get();
      under_way.clear();
    }
    return static_cast<double>(kCalls) / seconds_since(begin);
  };
  for (int run = 0; run < 5; ++run) {
    measured.values.push_back(round([&](const auto& reader) { return reader.template call<M>(argument); }));
    measured.baselines.push_back(
        round([&](const auto& reader) { return reader.template call<&Reader::same>(int64_t{0}); }));
  }
  for (const auto& reader : readers) reader.kill();
  return measured;
}

// One of the callers of call_n_to_n_arg, in its own process.
class ReaderCaller {
 public:
  void meet(ActorHandle<Reader> reader) {
    reader_ = std::move(reader);
    reader_.call<&Reader::same>(0).get();
  }
  // 1,000 calls at once with one argument that was put before (`bytes` of it, or a number), or with a number.
  void call(size_t rounds, bool stored, size_t bytes) {
    if (!stored) return rounds_of(rounds, [this] { return reader_.call<&Reader::same>(int64_t{0}); });
    if (bytes == 0)
      return rounds_of(rounds, [this, argument = put(int64_t{0})] { return reader_.call<&Reader::same>(argument); });
    rounds_of(rounds, [this, argument = put(Array<uint8_t>(std::vector<uint8_t>(bytes, 1)))] {
      return reader_.call<&Reader::size>(argument);
    });
  }

 private:
  template <class F>
  static void rounds_of(size_t rounds, const F& call) {
    for (size_t round = 0; round < rounds; ++round) {
      std::vector<decltype(call())> under_way;
      for (int i = 0; i < 1'000; ++i) under_way.push_back(call());
      for (const auto& future : under_way) future.get();
    }
  }

  ActorHandle<Reader> reader_;
};
VOLADOR_ACTOR(ReaderCaller, &ReaderCaller::meet, &ReaderCaller::call);

// Pairs of a caller and an actor, one per two processors, as in Ray's benchmark.
Measured call_n_to_n_with(size_t bytes) {
  constexpr size_t kRounds = 20;
  const size_t pairs = std::max(1U, std::thread::hardware_concurrency() / 2);
  Measured measured{.note = "the same calls with a number"};
  std::vector<ActorHandle<Reader>> readers;
  std::vector<ActorHandle<ReaderCaller>> callers;
  for (size_t i = 0; i < pairs; ++i) {
    readers.push_back(actor<Reader>().spawn());
    callers.push_back(actor<ReaderCaller>().spawn());
    callers.back().call<&ReaderCaller::meet>(readers.back()).get();
  }
  const auto calls_a_second = [&](bool stored) {
    const auto begin = Clock::now();
    std::vector<Future<void>> done;
    for (const auto& caller : callers) done.push_back(caller.call<&ReaderCaller::call>(kRounds, stored, bytes));
    for (const auto& one : done) one.get();
    return static_cast<double>(pairs * kRounds * 1'000) / seconds_since(begin);
  };
  calls_a_second(true);
  for (int run = 0; run < 5; ++run) {
    measured.values.push_back(calls_a_second(true));
    measured.baselines.push_back(calls_a_second(false));
  }
  for (const auto& caller : callers) caller.kill();
  for (const auto& reader : readers) reader.kill();
  return measured;
}

Measured call_n_to_n_arg() { return call_n_to_n_with(0); }
Measured call_n_to_n_arg_100kb() { return call_n_to_n_with(100'000); }
Measured call_arg() { return calls_with<&Reader::same>(put(int64_t{0})); }
Measured call_arg_100kb() { return calls_with<&Reader::size>(put(Array<uint8_t>(std::vector<uint8_t>(100'000, 1)))); }

}  // namespace

std::vector<Figure> object_figures() {
  return {{"put_1gb_cold", "GB/s", true, [] { return put_1gb(false); }},
          {"put_1gb", "GB/s", true, [] { return put_1gb(true); }},
          {"get_1gb", "us", false, get_1gb},
          {"call_argument_4mb", "GB/s", true, call_argument_4mb},
          {"put_small", "puts/s", true, put_small},
          {"get_small", "gets/s", true, get_small},
          {"put_100kb", "puts/s", true, put_100kb},
          {"call_n_to_n_arg", "calls/s", true, call_n_to_n_arg},
          {"call_n_to_n_arg_100kb", "calls/s", true, call_n_to_n_arg_100kb},
          {"call_1_to_n_arg", "calls/s", true, call_arg},
          {"call_1_to_n_arg_100kb", "calls/s", true, call_arg_100kb}};
}

}  // namespace volador::bench
