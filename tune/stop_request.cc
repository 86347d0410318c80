#include "tune/stop_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/files/durable_file.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTakenMax = 1'000;
constexpr size_t kBytesMax = 4'096;

fs::path folder_of(const fs::path& experiment) { return experiment / "requests"; }

// None: it is no request.
std::optional<StopAsked> read(const fs::path& file) {
  std::ifstream in(file);
  std::string text(kBytesMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  if (!json.contains("trial")) return StopAsked{std::nullopt, file};
  if (!json["trial"].is_string()) return std::nullopt;
  const auto trial = TrialId::parse(json["trial"].get<std::string>());
  return trial ? std::optional(StopAsked{*trial, file}) : std::nullopt;
}

}  // namespace

Result<fs::path> ask_to_stop(const fs::path& experiment, std::optional<TrialId> trial, Random& random) {
  const fs::path folder = folder_of(experiment);
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return make_error(ErrorCode::kUnavailable, fmt::format("{}: {}", folder.string(), code.message()));
  const fs::path file = folder / fmt::format("stop-{:016x}.json", random.next());
  nlohmann::json request = nlohmann::json::object();
  if (trial) request["trial"] = to_string(*trial);
  VOLADOR_TRY(write_file_atomically(file, request.dump() + "\n"));
  return file;
}

std::vector<StopAsked> stop_requests(const fs::path& experiment) {
  std::error_code code;
  std::vector<fs::path> files;
  for (fs::directory_iterator at(folder_of(experiment), code), end; !code && at != end && files.size() < kTakenMax;
       at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("stop-") && name.ends_with(".json")) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  std::vector<StopAsked> asked;
  for (const fs::path& file : files) {
    if (auto one = read(file)) {
      asked.push_back(std::move(*one));
    } else {
      fs::remove(file, code);
    }
  }
  return asked;
}

}  // namespace volador::tune
