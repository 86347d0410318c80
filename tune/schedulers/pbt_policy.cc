#include "tune/schedulers/pbt_policy.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/files/durable_file.h"
#include "runtime/files/results_mode.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string trial, from;
  int64_t step = 0;
  Config before, after;
};

fs::path policy_path(const fs::path& folder, TrialId trial) {
  return folder / fmt::format("pbt_policy_{}.txt", to_string(trial));
}

Result<void> append(const fs::path& path, std::string_view line) {
  auto file = FileHandle::open(path, O_WRONLY | O_CREAT | O_APPEND);
  if (!file) return make_error(file.error());
  return write_all(file->get(), line, path);
}

Result<Row> parse_row(std::string_view line, size_t number) {
  const auto refuse = [&](std::string_view what) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("line {}: {}; expected a line of pbt_policy_<id>.txt: [trial, copied trial, its step, "
                    "step of the checkpoint, configuration before, after]",
                    number, what));
  };
  const auto fields = Config::from_json(line);
  if (!fields) return refuse(fields.error().message);
  if (fields->size() != 6 || !fields->is_list()) return refuse("no list of six");
  try {
    Row row{(*fields)[0].text(), (*fields)[1].text(), (*fields)[3].integer(), fields->items()[4], fields->items()[5]};
    if (!row.before.is_map() || !row.after.is_map()) return refuse("a configuration is no object");
    if (row.step < 1) return refuse("the step is not positive");
    return row;
  } catch (const Exception& error) {
    return refuse(error.error().message);
  }
}

}  // namespace

Result<void> log_clone(const fs::path& experiment, const ClonedTrial& clone) {
  const TrialCloned& cloned = clone.cloned;
  const std::string line = Config::list({to_string(cloned.trial), to_string(cloned.from), cloned.had_step, cloned.step,
                                         clone.before, clone.after})
                               .to_json() +
                           "\n";
  VOLADOR_TRY(append(experiment / "pbt_global.txt", line));
  VOLADOR_TRY(make_results_directory(experiment / clone.folder));
  std::error_code code;
  const fs::path own = policy_path(experiment / clone.folder, cloned.trial);
  const fs::path theirs = policy_path(experiment / clone.from_folder, cloned.from);
  std::string lineage;
  if (fs::exists(theirs, code)) {
    auto text = read_file(theirs, SIZE_MAX);
    if (!text) return make_error(text.error());
    lineage = std::move(*text);
  } else if (fs::exists(own, code)) {
    auto text = read_file(own, SIZE_MAX);  // As Ray does; the reader drops what was overwritten.
    if (!text) return make_error(text.error());
    lineage = std::move(*text);
  }
  return write_file_atomically(own, lineage + line, Durability::kProcess);
}

Result<PbtPolicy> parse_pbt_policy(std::string_view text) {
  std::vector<Row> rows;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) {
      auto row = parse_row(text.substr(0, end), number);
      if (!row) return make_error(row.error());
      rows.push_back(std::move(*row));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (rows.empty())
    return make_error(ErrorCode::kInvalidArgument, "it has no line: the trial was never a copy of another one");
  // Walks from the end: the trial that was copied, and its own origin. Entries above a break of the chain were
  // overwritten.
  PbtPolicy policy;
  const Row* next = nullptr;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (next != nullptr && row->trial != next->from) break;
    if (next != nullptr && row->step > policy.changes.back().step) break;
    policy.changes.push_back({row->step, row->after});
    next = &*row;
  }
  policy.initial = next->before;
  std::reverse(policy.changes.begin(), policy.changes.end());
  return policy;
}

}  // namespace volador::tune
