// train_bench [--peer=PYTHON] [--only=NAME,…] [--ranks=N] [--rounds=N] [--steps=N] [--seconds=S]
//             [--gradient-as-bucket-view] [--json] [--list]: training beside PyTorch's torchrun and
// DistributedDataParallel, in turns in one run. scripts/bench_train_peers.sh installs a Python and calls it.
//
// --first-step is for the program itself: it prints how long the first step took from the start of the process.
#include <fmt/format.h>
#include <volador/volador.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "tests/bench/train/rows.h"

namespace volador::train::bench {
namespace {

constexpr const char* kUsage =
    "usage: train_bench [--peer=PYTHON] [--only=NAME,…] [--ranks=N] [--rounds=N] [--steps=N] [--seconds=S]\n"
    "                   [--gradient-as-bucket-view] [--json] [--list]\n";

struct Command {
  Options options;
  std::set<std::string> only;
  bool json = false;
  bool list = false;
  bool first_step = false;
};

struct UsageError {
  std::string text;
};

// The value of --name=value; nullopt: another argument.
std::optional<std::string> value_of(const std::string& argument, const std::string& name) {
  if (!argument.starts_with("--" + name + "=")) return std::nullopt;
  return argument.substr(name.size() + 3);
}

template <class T>
T number(const std::string& name, const std::string& text, T least, T most) {
  T value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !(value >= least && value <= most))
    throw UsageError{fmt::format("--{}: expected a number from {} to {}, got \"{}\"", name, least, most, text)};
  return value;
}

Command parse(int argc, char** argv) {
  Command command;
  Options& options = command.options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      command.json = true;
    } else if (argument == "--list") {
      command.list = true;
    } else if (argument == "--first-step") {
      command.first_step = true;
    } else if (argument == "--gradient-as-bucket-view") {
      options.bucket_view = true;
    } else if (const auto peer = value_of(argument, "peer")) {
      options.peer = *peer;
    } else if (const auto ranks = value_of(argument, "ranks")) {
      options.ranks = number("ranks", *ranks, 2, 64);
    } else if (const auto rounds = value_of(argument, "rounds")) {
      options.rounds = number("rounds", *rounds, 1, 1000);
    } else if (const auto steps = value_of(argument, "steps")) {
      options.steps = number<int64_t>("steps", *steps, 4, 100'000);
    } else if (const auto seconds = value_of(argument, "seconds")) {
      options.seconds = number("seconds", *seconds, 0.01, 3600.0);
    } else if (const auto only = value_of(argument, "only")) {
      for (size_t at = 0; at <= only->size();) {
        const size_t end = std::min(only->find(',', at), only->size());
        command.only.insert(only->substr(at, end - at));
        at = end + 1;
      }
    } else {
      throw UsageError{fmt::format("there is no option {}\n{}", argument, kUsage)};
    }
  }
  return command;
}

bool is_chosen(const std::string& name, const std::string& wanted) {
  return name == wanted || name.substr(0, name.find('/')) == wanted;
}

double ratio_of(const Row& row) { return row.peers.empty() ? 0 : median(row.ours) / median(row.peers); }

// nullopt: nothing to compare with.
std::optional<bool> is_met(const Row& row) {
  if (row.value_max > 0) return median(row.ours) <= row.value_max;
  if (row.ratio_max > 0 && !row.peers.empty()) return ratio_of(row) <= row.ratio_max;
  return std::nullopt;
}

std::string limit_of(const Row& row) {
  if (row.value_max > 0) return fmt::format("<= {:g} {}", row.value_max, row.unit);
  if (row.ratio_max > 0) return fmt::format("<= {:g}", row.ratio_max);
  return "-";
}

void print_head() {
  fmt::print("{:<30} {:>10} {:<9} {:>10} {:>7}  {:<10} {:<4} {}\n", "figure", "ours", "unit", "peer", "ratio",
             "must be", "met", "peer and further figures");
}

void print_row(const Row& row) {
  const auto met = is_met(row);
  std::string text = row.peers.empty() ? "" : row.beside;
  if (!row.note.empty()) text += (text.empty() ? "" : "; ") + row.note;
  fmt::print("{:<30} {:>10.4g} {:<9} {:>10} {:>7}  {:<10} {:<4} {}\n", row.name, median(row.ours), row.unit,
             row.peers.empty() ? "-" : fmt::format("{:.4g}", median(row.peers)),
             row.peers.empty() ? "-" : fmt::format("{:.3f}", ratio_of(row)), limit_of(row),
             met ? (*met ? "yes" : "NO") : "-", text);
  if (!row.wrong.empty()) fmt::print("{:<30} WRONG: {}\n", row.name, row.wrong);
}

void print_json(const Row& row, const Options& options) {
  const auto or_null = [](bool is_given, double value) { return is_given ? nlohmann::json(value) : nlohmann::json(); };
  const auto met = is_met(row);
  fmt::print("{}\n", nlohmann::json({{"name", row.name},
                                     {"unit", row.unit},
                                     {"value", median(row.ours)},
                                     {"runs", row.ours},
                                     {"peer", or_null(!row.peers.empty(), median(row.peers))},
                                     {"peer_runs", row.peers},
                                     {"beside", row.beside},
                                     {"ratio", or_null(!row.peers.empty(), ratio_of(row))},
                                     {"ratio_max", or_null(row.ratio_max > 0, row.ratio_max)},
                                     {"value_max", or_null(row.value_max > 0, row.value_max)},
                                     {"met", met ? nlohmann::json(*met) : nlohmann::json()},
                                     {"note", row.note},
                                     {"wrong", row.wrong},
                                     {"ranks", options.ranks}})
                         .dump());
}

// Returns the exit code: 1 if a result is wrong or rows could not be measured; a limit that is not met is no error.
int run(const Command& command, const std::vector<Bench>& benches) {
  int code = 0;
  if (!command.json) print_head();
  for (const Bench& bench : benches) {
    const auto chosen = [&](const std::string& wanted) { return is_chosen(bench.name, wanted); };
    if (!command.only.empty() && std::none_of(command.only.begin(), command.only.end(), chosen)) continue;
    std::fflush(stdout);
    try {
      for (const Row& row : bench.measure(command.options)) {
        if (command.json) {
          print_json(row, command.options);
        } else {
          print_row(row);
        }
        if (!row.wrong.empty()) code = 1;
      }
    } catch (const std::exception& e) {
      code = 1;
      if (command.json) {
        fmt::print("{}\n", nlohmann::json({{"name", bench.name}, {"value", nullptr}, {"not_run", e.what()}}).dump());
      } else {
        fmt::print("{:<30} not measured: {}\n", bench.name, e.what());
      }
    }
  }
  return code;
}

double seconds_since_start() {
  const char* start = std::getenv("VOLADOR_BENCH_START_NS");
  if (start == nullptr) throw UsageError{"--first-step is for train_bench itself"};
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch());
  return static_cast<double>(now.count() - std::atoll(start)) / 1e9;
}

int bench_main(int argc, char** argv) {
  // In a rank's process init() does not return.
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 64, .logs_to_driver = false});
  const Command command = parse(argc, argv);
  if (command.first_step) {
    first_step_seconds(command.options.ranks);
    fmt::print("{}\n", nlohmann::json({{"first_step_s", seconds_since_start()}}).dump());
    return 0;
  }
  std::vector<Bench> benches = step_benches();
  for (const auto& more : {local_benches(), recover_benches(), checkpoint_benches()})
    benches.insert(benches.end(), more.begin(), more.end());
  if (command.list) {
    for (const Bench& bench : benches) fmt::print("{}\n", bench.name);
    return 0;
  }
  for (const std::string& name : command.only) {
    if (std::none_of(benches.begin(), benches.end(), [&](const Bench& bench) { return is_chosen(bench.name, name); }))
      throw UsageError{fmt::format("there is no figure \"{}\"; train_bench --list names them", name)};
  }
  return run(command, benches);
}

}  // namespace
}  // namespace volador::train::bench

int main(int argc, char** argv) try {
  return volador::train::bench::bench_main(argc, argv);
} catch (const volador::train::bench::UsageError& e) {
  fmt::print(stderr, "error: {}\n", e.text);
  return 2;
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
