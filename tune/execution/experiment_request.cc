#include "tune/execution/experiment_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/files/durable_file.h"
#include "runtime/files/results_mode.h"
#include "tune/refusal.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTakenMax = 1'000;
constexpr size_t kConfigBytesMax = 64 << 10;
constexpr size_t kRequestBytesMax = kConfigBytesMax + 4'096;
constexpr std::array<std::string_view, 4> kActs{"stop", "pause", "resume", "add"};
constexpr std::chrono::milliseconds kLook{50};

fs::path folder_of(const fs::path& experiment) { return experiment / "requests"; }

fs::path refusal_of(fs::path file) { return file.replace_extension(".refused"); }

Result<fs::path> write_request(const fs::path& experiment, RequestAct act, const std::string& text, Random& random) {
  const fs::path folder = folder_of(experiment);
  VOLADOR_TRY(make_results_directory(folder));
  const fs::path file = folder / fmt::format("{}-{:016x}.json", to_string(act), random.next());
  VOLADOR_TRY(write_file_atomically(file, text + "\n"));
  return file;
}

// For a request whose file is gone.
Result<void> read_refusal(const fs::path& file) {
  const fs::path path = refusal_of(file);
  const auto text = read_file(path, kRequestBytesMax);
  if (!text) return {};
  std::error_code code;
  fs::remove(path, code);
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  const bool sound = json.is_object() && json.contains("code") && json["code"].is_number_integer() &&
                     json.contains("message") && json["message"].is_string();
  if (!sound) return make_error(ErrorCode::kInternal, fmt::format("{}: it is no refusal", path.string()));
  return make_error(error_code_from(json["code"].get<int64_t>()), json["message"].get<std::string>());
}

// No value: not a request.
std::optional<RequestAsked> read_request(const fs::path& file) {
  std::ifstream in(file);
  std::string text(kRequestBytesMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("act") || !json["act"].is_string()) return std::nullopt;
  const auto act = request_act_of(json["act"].get<std::string>());
  if (!act) return std::nullopt;
  std::string config;
  if (*act == RequestAct::kAdd) {
    if (!json.contains("config")) return std::nullopt;
    config = json["config"].dump();
  }
  if (!json.contains("trial")) return RequestAsked{*act, std::nullopt, file, std::move(config)};
  if (!json["trial"].is_string()) return std::nullopt;
  const auto trial = TrialId::parse(json["trial"].get<std::string>());
  return trial ? std::optional(RequestAsked{*act, *trial, file, std::move(config)}) : std::nullopt;
}

}  // namespace

std::string_view to_string(RequestAct act) { return kActs[static_cast<size_t>(act)]; }

std::optional<RequestAct> request_act_of(std::string_view word) {
  const auto found = std::find(kActs.begin(), kActs.end(), word);
  if (found == kActs.end()) return std::nullopt;
  return static_cast<RequestAct>(found - kActs.begin());
}

Event event_of(RequestAct act, std::optional<TrialId> trial) {
  const TrialId id = trial.value_or(TrialId());
  switch (act) {
    case RequestAct::kPause:
      return PauseRequested{id, !trial};
    case RequestAct::kResume:
      return ResumeRequested{id, !trial};
    case RequestAct::kAdd:
    case RequestAct::kStop:
      break;
  }
  return StopRequested{id, !trial};
}

Result<fs::path> ask_of_experiment(const fs::path& experiment, RequestAct act, std::optional<TrialId> trial,
                                   Random& random) {
  const std::string word(to_string(act));
  return write_request(experiment, act,
                       trial ? fmt::format(R"({{"act":"{}","trial":"{}"}})", word, to_string(*trial))
                             : fmt::format(R"({{"act":"{}"}})", word),
                       random);
}

Result<fs::path> ask_to_add(const fs::path& experiment, const Config& config, std::optional<TrialId> like,
                            Random& random) {
  if (!config.is_map())
    return refuse(fmt::format("config: expected a map of parameters, got {}", to_string(config.kind())));
  const std::string text = config.to_json();
  if (text.size() > kConfigBytesMax)
    return refuse(fmt::format("config: it has {} bytes as JSON, at most {} are taken", text.size(), kConfigBytesMax));
  const std::string of = like ? fmt::format(R"(,"trial":"{}")", to_string(*like)) : std::string();
  return write_request(experiment, RequestAct::kAdd, fmt::format(R"({{"act":"add","config":{}{}}})", text, of), random);
}

Result<void> await_request(const fs::path& experiment, const fs::path& file, std::chrono::milliseconds patience) {
  std::error_code code;
  for (std::chrono::milliseconds waited{0}; waited < patience; waited += kLook) {
    if (!fs::exists(file, code)) return read_refusal(file);
    std::this_thread::sleep_for(kLook);
  }
  const bool driven = is_driven(experiment);
  if (!fs::remove(file, code) && !code) return read_refusal(file);
  if (!driven) return make_error(no_program(experiment));
  return make_error(
      ErrorCode::kTimeout,
      fmt::format("{}: its program did not look for {} s; it may hang, or be of an earlier Volador: end it "
                  "with Ctrl-C",
                  experiment.string(), patience.count() / 1000));
}

namespace {

Result<void> add_and_await(const fs::path& experiment, const Config& config, std::optional<TrialId> like,
                           std::chrono::milliseconds patience) {
  if (!is_driven(experiment)) return make_error(no_program(experiment));
  SystemRandom random;
  const auto file = ask_to_add(experiment, config, like, random);
  if (!file) return make_error(file.error());
  return await_request(experiment, *file, patience);
}

}  // namespace

Result<void> add_configuration(const fs::path& experiment, const Config& config, std::chrono::milliseconds patience) {
  return add_and_await(experiment, config, std::nullopt, patience);
}

Result<void> clone_trial(const fs::path& experiment, TrialId trial, const Config& changes,
                         std::chrono::milliseconds patience) {
  return add_and_await(experiment, changes, trial, patience);
}

Error no_program(const fs::path& experiment) {
  return {ErrorCode::kNotFound,
          fmt::format(
              "{}: no program runs it now (volador tune show tells how it ended; volador tune resume starts it again)",
              experiment.string())};
}

std::vector<RequestAsked> experiment_requests(const fs::path& experiment) {
  std::error_code code;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator at(folder_of(experiment), code), end; !code && at != end && files.size() < kTakenMax;
       at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!name.ends_with(".json") || !request_act_of(name.substr(0, name.find('-')))) continue;
    std::error_code gone;
    files.emplace_back(fs::last_write_time(at->path(), gone), at->path());
  }
  std::sort(files.begin(), files.end());  // By time.
  std::vector<RequestAsked> asked;
  for (const auto& [written, file] : files) {
    if (auto one = read_request(file)) {
      asked.push_back(std::move(*one));
    } else {
      fs::remove(file, code);
    }
  }
  return asked;
}

void answer_request(const RequestAsked& asked, const std::optional<Error>& refusal) {
  if (refusal) {
    const nlohmann::json text{{"code", static_cast<int64_t>(refusal->code)}, {"message", refusal->message}};
    (void)write_file_atomically(refusal_of(asked.file), text.dump() + "\n");
  }
  std::error_code code;
  fs::remove(asked.file, code);
}

}  // namespace volador::tune
