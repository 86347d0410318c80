#include "tune/experiment_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/files/durable_file.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTakenMax = 1'000;
constexpr size_t kRequestBytesMax = 4'096;
constexpr std::array<std::string_view, 3> kActs{"stop", "pause", "resume"};

fs::path folder_of(const fs::path& experiment) { return experiment / "requests"; }

// None: it is no request.
std::optional<RequestAsked> read_request(const fs::path& file) {
  std::ifstream in(file);
  std::string text(kRequestBytesMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("act") || !json["act"].is_string()) return std::nullopt;
  const auto act = request_act_of(json["act"].get<std::string>());
  if (!act) return std::nullopt;
  if (!json.contains("trial")) return RequestAsked{*act, std::nullopt, file};
  if (!json["trial"].is_string()) return std::nullopt;
  const auto trial = TrialId::parse(json["trial"].get<std::string>());
  return trial ? std::optional(RequestAsked{*act, *trial, file}) : std::nullopt;
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
    case RequestAct::kStop:
      break;
  }
  return StopRequested{id, !trial};
}

Result<fs::path> ask_of_experiment(const fs::path& experiment, RequestAct act, std::optional<TrialId> trial,
                                   Random& random) {
  const fs::path folder = folder_of(experiment);
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return make_error(ErrorCode::kUnavailable, fmt::format("{}: {}", folder.string(), code.message()));
  const fs::path file = folder / fmt::format("{}-{:016x}.json", to_string(act), random.next());
  nlohmann::json request{{"act", to_string(act)}};
  if (trial) request["trial"] = to_string(*trial);
  VOLADOR_TRY(write_file_atomically(file, request.dump() + "\n"));
  return file;
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
  std::sort(files.begin(), files.end());
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

}  // namespace volador::tune
