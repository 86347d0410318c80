#include "train/report/stored_checkpoint.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/files/durable_file.h"
#include "runtime/files/results_mode.h"
#include "runtime/storage/storage.h"

namespace volador::train {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMarkBytesMax = 64 << 20;
constexpr const char* kMarkSuffix = ".json";

struct CheckpointMark {
  int64_t step = 0;
  std::map<std::string, int64_t> files = {};  // Bytes by path in the folder.
};

Result<CheckpointMark> parse_mark(const std::string& what, const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  CheckpointMark mark;
  try {
    mark.step = json.at("step").get<int64_t>();
    mark.files = json.at("files").get<std::map<std::string, int64_t>>();
  } catch (const nlohmann::json::exception&) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: it is damaged", what));
  }
  for (const auto& [file, bytes] : mark.files) VOLADOR_TRY(storage::check_key(what, file));
  return mark;
}

Result<void> check_sizes(const std::string& what, const CheckpointMark& mark, const fs::path& folder) {
  for (const auto& [file, bytes] : mark.files) {
    std::error_code code;
    const auto there = fs::file_size(folder / file, code);
    if (!code && static_cast<int64_t>(there) == bytes) continue;
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: {} came with {} bytes, its mark says {}; read it again",
                                                           what, file, code ? 0 : there, bytes));
  }
  return {};
}

}  // namespace

Result<void> write_checkpoint_mark(const fs::path& folder, int64_t step) {
  nlohmann::json files = nlohmann::json::object();
  std::error_code code;
  for (fs::recursive_directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (at->is_regular_file(code)) files[at->path().lexically_relative(folder).string()] = at->file_size(code);
    if (code) break;
  }
  if (code) return make_error(file_error("read", folder, code.value()));
  return write_file_atomically(folder.string() + kMarkSuffix,
                               nlohmann::json{{"step", step}, {"files", files}}.dump() + "\n");
}

int64_t step_of_checkpoint(const fs::path& folder) {
  const std::string file = folder.string() + kMarkSuffix;
  const auto text = read_file(file, kMarkBytesMax);
  if (!text) return 0;
  const auto mark = parse_mark(file, *text);
  return mark ? mark->step : 0;
}

Result<int64_t> fetch_checkpoint(const std::string& address, const fs::path& folder) {
  const auto url = storage::parse_storage_url(address);
  if (!url) return make_error(url.error());
  const auto place = url->parent();
  if (!place)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: expected the place of a checkpoint in it", url->text()));
  const std::string& key = place->second;
  auto store = storage::open_object_store({place->first});
  if (!store) return make_error(store.error());
  const auto text = (*store)->read(key + kMarkSuffix, kMarkBytesMax, {});
  if (!text && text.error().code != ErrorCode::kNotFound) return make_error(text.error());
  if (!text) {
    auto whole = storage::Storage::open({place->first});
    if (!whole) return make_error(whole.error());
    const auto is_whole = whole->exists(key);
    if (!is_whole) return make_error(is_whole.error());
    if (!*is_whole)
      return make_error(ErrorCode::kNotFound, fmt::format("{}: no complete checkpoint is there; volador storage ls "
                                                          "'{}' lists what is",
                                                          url->text(), place->first.text()));
    const auto files = whole->download(key, folder, {});
    if (!files) return make_error(files.error());
    return 0;
  }
  const auto mark = parse_mark(url->text() + kMarkSuffix, *text);
  if (!mark) return make_error(mark.error());
  std::vector<std::string> files;
  for (const auto& [file, bytes] : mark->files) files.push_back(file);
  VOLADOR_TRY(make_results_directory(folder));
  VOLADOR_TRY((*store)->get(key, files, folder, {}));
  VOLADOR_TRY(check_sizes(url->text(), *mark, folder));
  return mark->step;
}

}  // namespace volador::train
