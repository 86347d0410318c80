// Program for the fault tests: trials whose steps have known values and that record their actions outside of the
// runtime, so that lost, repeated and invented steps are detected.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <volador/volador.h>

#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

uint64_t next_value(uint64_t value, uint64_t seed, int64_t step) {
  uint64_t z = value + 0x9e3779b97f4a7c15ULL * (seed + 1) + static_cast<uint64_t>(step);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return (z ^ (z >> 31)) >> 11;  // 53 bits: exact as a double.
}

class Oracle : public tune::Trainable {
 public:
  void setup(const tune::Config& config) override {
    seed_ = static_cast<uint64_t>(config.integer("seed"));
    step_ms_ = config.integer("step_ms");
    ledger_ = config.text("ledger");
    frozen_bytes_ = config.integer("frozen_mb") << 20;
  }
  tune::Metrics step() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(step_ms_));
    ++step_;
    value_ = next_value(value_, seed_, step_);
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    const std::string line = fmt::format("{} {} {} {} {}\n", seed_, tune::get_context().attempt, getpid(), step_,
                                         now.tv_sec * 1'000'000'000LL + now.tv_nsec);
    const int file = open(ledger_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::runtime_error("no ledger: " + ledger_);
    close(file);
    return {{"value", static_cast<double>(value_)}};
  }
  void save_checkpoint(const std::filesystem::path& dir) override {
    std::ofstream(dir / "state") << step_ << ' ' << value_;
    if (frozen_bytes_ > 0) std::ofstream(dir / "frozen") << frozen();
  }
  void load_checkpoint(const std::filesystem::path& dir) override {
    std::ifstream(dir / "state") >> step_ >> value_;
    if (frozen_bytes_ == 0) return;
    std::ostringstream text;
    text << std::ifstream(dir / "frozen").rdbuf();
    if (text.str() != frozen()) throw std::runtime_error("what never changes came back as something else");
  }

 private:
  // Identical at every step, different for each trial, and incompressible.
  std::string frozen() const {
    std::string bytes(static_cast<size_t>(frozen_bytes_), '\0');
    uint64_t value = seed_;
    for (size_t at = 0; at + sizeof(value) <= bytes.size(); at += sizeof(value)) {
      value = next_value(value, seed_, 1) * 0x9e3779b97f4a7c15ULL;
      std::memcpy(bytes.data() + at, &value, sizeof(value));
    }
    return bytes;
  }

  int64_t frozen_bytes_ = 0;
  uint64_t seed_ = 0;
  int64_t step_ms_ = 0;
  std::string ledger_;
  int64_t step_ = 0;
  uint64_t value_ = 0;
};
VOLADOR_TRAINABLE(Oracle);

// oracle_trials trials=N steps=N step_ms=N every=N storage=DIR ledger=FILE [resume=DIR] [failures=N] [frozen_mb=N]
int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  std::map<std::string, std::string> given{{"trials", "8"},    {"steps", "20"},   {"step_ms", "100"},
                                           {"every", "5"},     {"failures", "3"}, {"step_timeout_ms", "0"},
                                           {"frozen_mb", "0"}, {"resume", ""}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) return 2;
    given[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  const auto number = [&](const char* name) { return std::atoll(given.at(name).c_str()); };
  std::vector<int64_t> seeds;
  for (int64_t seed = 0; seed < number("trials"); ++seed) seeds.push_back(seed);
  auto analysis = tune::run<Oracle>({
      .name = "oracle",
      .space = {{"seed", tune::grid_search(seeds)},
                {"step_ms", number("step_ms")},
                {"ledger", given.at("ledger")},
                {"frozen_mb", number("frozen_mb")}},
      .metric = "value",
      .mode = tune::Mode::kMax,
      .stop = {{"training_iteration", static_cast<double>(number("steps"))}},
      .max_failures = number("failures"),
      .checkpoint = {.frequency = number("every"), .at_end = true, .num_to_keep = 2},
      .storage_path = given.at("storage"),
      .resume = given.at("resume"),
      .raise_on_failed_trial = false,
      .step_timeout = std::chrono::milliseconds(number("step_timeout_ms")),
  });
  fmt::print("directory {}\n", analysis.directory().string());
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
