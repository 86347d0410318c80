#include "cli/run_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/commands/tune_command.h"
#include "head/experiments/run_names.h"
#include "tune/results/experiment_directory.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Failure> not_found(std::string message) {
  return refuse_run({ErrorCode::kNotFound, std::move(message)});
}

}  // namespace

tl::expected<fs::path, Failure> run_directory(const std::string& text) {
  std::error_code code;
  if (fs::is_directory(text, code)) return fs::path(text);
  if (text.find('/') != std::string::npos)
    return not_found(fmt::format("{}: there is no such directory; volador tune list shows runs", text));
  const fs::path folder = tune::default_storage_path();
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    std::error_code ignored;
    if (at->path().filename().string().starts_with(text) && at->is_directory(ignored))
      names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  if (names.empty() || text.empty()) {
    return not_found(
        fmt::format("{}: there is no such directory, and no run in {} starts so; volador tune list shows runs", text,
                    tune::display_path(folder)));
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (const auto named = head::named_run(views, text)) return folder / names[*named];
  return not_found(fmt::format("\"{}\": {} runs in {} start so: {}; give more of the name", text, names.size(),
                               tune::display_path(folder), head::listed(names)));
}

}  // namespace volador::cli
