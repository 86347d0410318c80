// Trials that only sleep and report, for measuring the overhead of tuning.
//
//   tune_sleep --num-samples=640 --seconds=1 --reports=1 --cpus=1 --scheduler=fifo --cluster-cpus=16
//
//   --num-samples   trials (16)
//   --seconds       total duration of each trial (1)
//   --reports       reports per trial, evenly spaced (1)
//   --cpus          CPUs per trial (1)
//   --scheduler     fifo or asha (fifo)
//   --reuse-actors  1: trials reuse the processes of ended ones (0)
//   --checkpoint-frequency  reports between checkpoints; 0: none (0)
//   --print         lines that each trial prints before its first report, every thousandth an error message (0)
//   --seed          seed of the configurations; by default random
//   --resume        directory of an earlier run to resume, with the arguments of that run
//   --cluster-cpus  logical CPUs of the private cluster that is started if none runs (by default all of the machine)
#include <fmt/format.h>
#include <volador/volador.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>

void sleeps(const tune::Config& config) {
  const int64_t reports = config.integer("reports");
  const int64_t lines = config.get_or("print", 0);
  for (int64_t i = 1; i <= lines; ++i) {
    if (i % 1000 == 0) {
      fmt::print("error: batch {} was lost, asked for it again\n", i);
    } else {
      fmt::print("step {} of a run that prints a lot\n", i);
    }
  }
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const int64_t done = tune::get_checkpoint() ? tune::get_checkpoint()->step() : 0;
  for (int64_t i = done + 1; i <= reports; ++i) {
    const double share = static_cast<double>(i - done) / static_cast<double>(reports);
    std::this_thread::sleep_until(start + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                              std::chrono::duration<double>(config.real("seconds") * share)));
    tune::report({{"score", config.real("quality") * static_cast<double>(i)}},
                 [](const auto&) {});  // No state but the step.
  }
}

int main(int argc, char** argv) try {
  std::map<std::string, std::string> flags = {{"num-samples", "16"},
                                              {"seconds", "1"},
                                              {"reports", "1"},
                                              {"cpus", "1"},
                                              {"scheduler", "fifo"},
                                              {"cluster-cpus", ""},
                                              {"checkpoint-frequency", "0"},
                                              {"reuse-actors", "0"},
                                              {"resume", ""},
                                              {"print", "0"},
                                              {"seed", ""}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name =
        argument.starts_with("--") ? argument.substr(2, equals == std::string::npos ? equals : equals - 2) : "";
    if (!flags.contains(name) || (equals == std::string::npos && i + 1 == argc)) {
      fmt::print(stderr,
                 "error: unknown argument \"{}\"; known: --num-samples --seconds --reports --cpus --scheduler "
                 "--reuse-actors --checkpoint-frequency --print --seed --resume --cluster-cpus, each with a value\n",
                 argument);
      return 2;
    }
    flags[name] = equals == std::string::npos ? argv[++i] : argument.substr(equals + 1);
  }
  volador::InitOptions options;
  if (!flags["cluster-cpus"].empty()) options.num_cpus = std::stod(flags["cluster-cpus"]);
  auto cluster = volador::init(argc, argv, options);

  const int64_t reports = std::stoll(flags["reports"]);
  const int64_t samples = std::stoll(flags["num-samples"]);
  const int64_t frequency = std::stoll(flags["checkpoint-frequency"]);
  const double seconds = std::stod(flags["seconds"]);
  const double cpus = std::stod(flags["cpus"]);
  const bool asha = flags["scheduler"] == "asha";
  const bool reuse = flags["reuse-actors"] == "1";
  tune::Space space{{"seconds", seconds}, {"reports", reports}, {"quality", tune::uniform(0.0, 1.0)}};
  if (flags["print"] != "0") space.set("print", int64_t{std::stoll(flags["print"])});
  const std::optional<uint64_t> seed =
      flags["seed"].empty() ? std::nullopt : std::optional<uint64_t>(std::stoull(flags["seed"]));
  const auto start = std::chrono::steady_clock::now();
  auto analysis = tune::run<&sleeps>({
      .name = "sleep",
      .space = std::move(space),
      .metric = "score",
      .num_samples = samples,
      .scheduler = asha ? tune::asha({.grace_period = 1, .max_t = reports, .reduction_factor = 4}) : tune::fifo(),
      .resources_per_trial = {.cpus = cpus},
      .max_failures = 3,
      .checkpoint = {.frequency = frequency, .num_to_keep = 1},
      .resume = flags["resume"],
      .seed = seed,
      .reuse_actors = reuse,
  });
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const size_t trials = analysis.trials().size(), results = analysis.results().size();
  fmt::print("{} {}, {} {}, {:.3f} s\nresults: {}\n", trials, trials == 1 ? "trial" : "trials", results,
             results == 1 ? "result" : "results", elapsed.count(), analysis.directory().string());
  return analysis.interrupted() ? 130 : 0;
} catch (const volador::Exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
} catch (const std::logic_error&) {
  fmt::print(stderr, "error: expected numbers; the flags are explained at the top of examples/tune_sleep.cc\n");
  return 2;
}
