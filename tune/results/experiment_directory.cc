#include "tune/results/experiment_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/files/durable_file.h"
#include "runtime/files/results_mode.h"
#include "runtime/storage/storage_url.h"
#include "tune/results/result_text.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameBytesMax = 100;
constexpr int kSameSecondMax = 1000;

Result<void> check_name(const std::string& name) {
  std::string_view rule;
  if (name.empty()) {
    rule = "expected a name";
  } else if (name.size() > kNameBytesMax) {
    rule = "expected at most 100 bytes";
  } else if (name.front() == '.' || name.front() == '-') {
    rule = "a name may not start with a dot or a dash";
  } else {
    for (const char c : name) {
      if (c == '/' || static_cast<uint8_t>(c) < 0x20 || c == 0x7f)
        rule = "a name may not have slashes or control characters";
    }
  }
  if (rule.empty()) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("name: {}, got \"{}\"; it names the experiment's directory", rule, name));
}

Result<void> probe(const fs::path& directory, int64_t free_bytes_min) {
  const fs::path file = directory / ".write-test";
  const auto write = [&]() -> Result<void> {
    auto handle = FileHandle::open(file, O_WRONLY | O_CREAT | O_TRUNC);
    if (!handle) return make_error(handle.error());
    VOLADOR_TRY(write_all(handle->get(), std::string(4096, 'x'), directory));
    return sync_file(handle->get(), directory);
  };
  auto written = write();
  ::unlink(file.c_str());
  VOLADOR_TRY(std::move(written));
  std::error_code code;
  const fs::space_info space = fs::space(directory, code);
  if (!code && space.available != static_cast<uintmax_t>(-1) &&
      space.available < static_cast<uintmax_t>(free_bytes_min)) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}: {} MiB left on its file system, results need at least {} MiB; free some or "
                                  "choose another storage_path",
                                  directory.string(), space.available >> 20, free_bytes_min >> 20));
  }
  return {};
}

}  // namespace

Result<ExperimentDirectory> ExperimentDirectory::create(const Options& options, WallTime now) {
  VOLADOR_TRY(check_name(options.name));
  if (storage::is_storage_url(options.storage_path.string()))
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: results of training are on a disk; give the path of a folder, and store it afterwards "
                    "with volador storage cp",
                    options.storage_path.string()));
  std::error_code code;
  const fs::path storage =
      fs::absolute(options.storage_path.empty() ? default_storage_path() : options.storage_path, code);
  const auto& mode = results_mode();
  if (!mode) return make_error(mode.error());
  VOLADOR_TRY(make_results_directory(storage));
  ExperimentDirectory made;
  made.name_ = options.name;
  const std::string base = fmt::format("{}_{}", options.name, DateText().of(now));
  for (int number = 1;; ++number) {
    made.path_ = storage / (number == 1 ? base : fmt::format("{}_{}", base, number));
    if (::mkdir(made.path_.c_str(), mode->directory) == 0) break;
    if (errno != EEXIST || number == kSameSecondMax)
      return make_error(file_error("make the results directory", made.path_, errno));
  }
  if (auto probed = probe(made.path_, options.free_bytes_min); !probed) {
    ::rmdir(made.path_.c_str());
    return make_error(probed.error());
  }
  return made;
}

Result<ExperimentDirectory> ExperimentDirectory::open(const fs::path& path, const std::string& name) {
  std::error_code code;
  ExperimentDirectory found;
  found.name_ = name;
  found.path_ = fs::canonical(path, code);
  if (code) return make_error(file_error("resume", path, code.value()));
  VOLADOR_TRY(probe(found.path_, 0));
  return found;
}

std::string ExperimentDirectory::argument() const {
  const std::string shown = display_path(path_);
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_./~:+-,@=").find(c) != std::string_view::npos;
  };
  if (std::all_of(shown.begin(), shown.end(), is_plain)) return shown;
  std::string quoted = "'";
  for (const char c : path_.string()) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Result<void> ExperimentDirectory::write_state(std::string_view json) const {
  return write_file_atomically(path_ / "experiment_state.json", json);
}

fs::path default_storage_path() {
  const char* home = std::getenv("HOME");
  return (home != nullptr && *home != '\0' ? fs::path(home) : fs::path(".")) / "volador_results";
}

std::string display_path(const fs::path& path) {
  const char* home = std::getenv("HOME");
  const std::string text = path.string();
  if (home != nullptr && *home != '\0') {
    const std::string_view prefix = home;
    if (prefix.size() > 1 && text.starts_with(prefix) && text.size() > prefix.size() && text[prefix.size()] == '/') {
      return "~" + text.substr(prefix.size());
    }
  }
  return text;
}

}  // namespace volador::tune
