// Workload of the fault tests: calls, tasks and objects with known results. Each execution of a call or task appends a
// line to a ledger that faults do not affect, and the program records the result of each.
//
//   fault_workload kind=counters|tasks|objects seed=N ledger=FILE results=FILE stop=FILE [actors=N] [window=N] [work_ms=N]
//                  [bound_s=N]
//
// Submits work until the file `stop` exists. Pending work then has bound_s seconds to end. Exit codes: 0 all work
// ended; 3 some did not (stderr names each); 1 the program itself failed.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <volador/volador.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Writes a line with one write, so that lines of several processes do not mix.
void append_line(const std::string& file, const std::string& line) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("cannot write " + file);
  }
  ::close(fd);
}

// Identifies this process instance: pids are reused.
std::string incarnation_name() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return fmt::format("{}.{}.{}", getpid(), now.tv_sec, now.tv_nsec);
}

struct Count {
  std::string incarnation;
  int64_t calls = 0;  // Calls executed by this incarnation, including this one.
};
VOLADOR_FIELDS(Count, incarnation, calls);

class Counter {
 public:
  Counter(std::string ledger, int64_t number, int64_t work_ms)
      : ledger_(std::move(ledger)), number_(number), work_ms_(work_ms), incarnation_(incarnation_name()) {}
  Count add(int64_t call) {
    if (work_ms_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(work_ms_));
    append_line(ledger_, fmt::format("{} {} {}\n", number_, incarnation_, call));
    const auto now = Clock::now();
    if (now - said_at_ > 100ms) {  // For the program's standard error, which may be on a full disk.
      said_at_ = now;
      fmt::print("counter {} executed call {}{:.>200}\n", number_, call, "");
      std::fflush(stdout);
    }
    return {incarnation_, ++calls_};
  }

 private:
  const std::string ledger_;
  const int64_t number_;
  const int64_t work_ms_;
  const std::string incarnation_;
  int64_t calls_ = 0;
  Clock::time_point said_at_{};
};
VOLADOR_ACTOR(Counter, &Counter::add);

int64_t twice(int64_t value, int64_t work_ms, std::string ledger) {
  if (work_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(work_ms));
  append_line(ledger, fmt::format("task {} {}\n", getpid(), value));
  return 2 * value;
}

using Numbers = std::vector<double>;
Numbers numbers_of(int64_t seed) {
  Numbers numbers(50'000);  // 400 kB: sent through the object stores.
  for (size_t at = 0; at < numbers.size(); ++at)
    numbers[at] = static_cast<double>((static_cast<size_t>(seed) * 31 + at) % 1000);
  return numbers;
}
double sum_of(const Numbers& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }
double sum_behind(const volador::Ref<Numbers>& numbers) { return sum_of(numbers.get()); }
volador::Ref<Numbers> make_numbers(int64_t seed) { return volador::put(numbers_of(seed)); }

// The result of each item, one line each: "KIND NUMBER ok VALUE…" or "KIND NUMBER error CODE MESSAGE".
class Results {
 public:
  explicit Results(std::string file) : file_(std::move(file)) {}
  void begin(const std::string& what) {
    const std::lock_guard<std::mutex> hold(mutex_);
    open_.emplace(what, Clock::now());
  }
  void end(const std::string& what, const std::string& how) {
    append_line(file_, what + " " + how + "\n");
    const std::lock_guard<std::mutex> hold(mutex_);
    open_.erase(what);
    ++ended_;
  }
  size_t open() const {
    const std::lock_guard<std::mutex> hold(mutex_);
    return open_.size();
  }
  // Longest first.
  std::vector<std::pair<std::string, double>> still_open() const {
    const std::lock_guard<std::mutex> hold(mutex_);
    std::vector<std::pair<std::string, double>> all;
    for (const auto& [what, since] : open_)
      all.emplace_back(what, std::chrono::duration<double>(Clock::now() - since).count());
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return all;
  }
  size_t ended() const {
    const std::lock_guard<std::mutex> hold(mutex_);
    return ended_;
  }

 private:
  const std::string file_;
  mutable std::mutex mutex_;
  std::map<std::string, Clock::time_point> open_;
  size_t ended_ = 0;
};

std::string text_of(const Count& count) { return fmt::format("ok {} {}", count.incarnation, count.calls); }
std::string text_of(int64_t value) { return fmt::format("ok {}", value); }
std::string text_of(double value) { return fmt::format("ok {}", value); }

template <class T>
void follow(const std::shared_ptr<Results>& results, std::string what, const volador::Future<T>& future) {
  results->begin(what);
  future.then([results, what = std::move(what)](const volador::Result<typename volador::Future<T>::Value>& result) {
    if (!result)
      return results->end(what, fmt::format("error {} {}", to_string(result.error().code), result.error().message));
    results->end(what, text_of(*result));
  });
}

struct Given {
  std::map<std::string, std::string> texts{{"kind", "counters"}, {"seed", "1"},    {"actors", "6"},
                                           {"window", "20"},     {"work_ms", "2"}, {"bound_s", "30"}};
  int64_t number(const char* name) const { return std::stoll(texts.at(name)); }
  const std::string& text(const char* name) const { return texts.at(name); }
};

bool is_asked_to_stop(const Given& given) { return std::filesystem::exists(given.text("stop")); }

void run_counters(const Given& given, const std::shared_ptr<Results>& results) {
  std::vector<volador::ActorHandle<Counter>> counters;
  for (int64_t number = 0; number < given.number("actors"); ++number) {
    counters.push_back(volador::actor<Counter>(given.text("ledger"), number, given.number("work_ms"))
                           .resources({.cpus = 0.5})
                           .max_restarts(-1)
                           .max_task_retries(-1)
                           .spawn());
  }
  std::vector<std::thread> callers;
  for (size_t at = 0; at < counters.size(); ++at) {
    callers.emplace_back([&, at] {
      std::deque<volador::Future<Count>> window;
      for (int64_t call = 1; !is_asked_to_stop(given); ++call) {
        window.push_back(counters[at].call<&Counter::add>(call));
        follow(results, fmt::format("call {}.{}", at, call), window.back());
        while (!window.empty() && window.front().is_ready()) window.pop_front();
        while (window.size() >= static_cast<size_t>(given.number("window")) && !is_asked_to_stop(given)) {
          if (window.front().wait_for(100ms)) window.pop_front();
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  const auto end = Clock::now() + std::chrono::seconds(given.number("bound_s"));
  while (results->open() > 0 && Clock::now() < end) std::this_thread::sleep_for(20ms);
}

// Submits by `one(number)` and keeps at most `window` in flight.
template <class One>
void run_stream(const Given& given, const std::shared_ptr<Results>& results, One one) {
  for (int64_t number = 1; !is_asked_to_stop(given); ++number) {
    one(number);
    while (results->open() >= static_cast<size_t>(given.number("window")) && !is_asked_to_stop(given))
      std::this_thread::sleep_for(10ms);
  }
  const auto end = Clock::now() + std::chrono::seconds(given.number("bound_s"));
  while (results->open() > 0 && Clock::now() < end) std::this_thread::sleep_for(20ms);
}

void run_tasks(const Given& given, const std::shared_ptr<Results>& results) {
  run_stream(given, results, [&](int64_t number) {
    follow(results, fmt::format("task {}", number),
           volador::task<&twice>(number, given.number("work_ms"), given.text("ledger"))
               .resources({.cpus = 0.5})
               .max_retries(-1)
               .submit());
  });
}

// Half of the objects are created by tasks, so that they can be reconstructed if their node is lost; half by this
// program.
void run_objects(const Given& given, const std::shared_ptr<Results>& results) {
  run_stream(given, results, [&](int64_t number) {
    if (number % 2 == 0) {
      auto made = volador::task<&make_numbers>(number).resources({.cpus = 0.5}).max_retries(-1).submit();
      follow(results, fmt::format("made {}", number),
             volador::task<&sum_behind>(made).resources({.cpus = 0.5}).max_retries(-1).submit());
      return;
    }
    try {
      const auto put = volador::put(numbers_of(number));
      follow(results, fmt::format("put {}", number),
             volador::task<&sum_of>(put).resources({.cpus = 0.5}).max_retries(-1).submit());
    } catch (const volador::Exception& error) {
      results->end(fmt::format("put {}", number),
                   fmt::format("error {} {}", to_string(error.error().code), error.what()));
      std::this_thread::sleep_for(100ms);  // The store of this machine is temporarily unavailable.
    }
  });
}

}  // namespace

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  Given given;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) return 2;
    given.texts[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  const auto results = std::make_shared<Results>(given.text("results"));
  const std::string& kind = given.text("kind");
  if (kind == "counters") {
    run_counters(given, results);
  } else if (kind == "tasks") {
    run_tasks(given, results);
  } else if (kind == "objects") {
    run_objects(given, results);
  } else {
    fmt::print(stderr, "kind: expected counters, tasks or objects, got \"{}\"\n", kind);
    return 2;
  }
  const auto left = results->still_open();
  fmt::print("{} ended, {} did not end within {} s\n", results->ended(), left.size(), given.number("bound_s"));
  for (size_t at = 0; at < std::min<size_t>(left.size(), 20); ++at)
    fmt::print(stderr, "{} is under way for {:.1f} s\n", left[at].first, left[at].second);
  std::fflush(nullptr);
  if (left.empty()) return 0;
  ::_exit(3);  // Does not wait for hanging work.
} catch (const volador::Exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
