#include "experiments/core/shared_rules.h"

#include <fmt/format.h>

#include <set>

#include "runtime/utf8.h"

namespace volador::experiments {

Result<void> check_words(std::string_view field, const std::string& text, size_t least, size_t most) {
  if (text.size() >= least && text.size() <= most && plain_text(text, most) == text) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: expected {} to {} bytes in one line, got \"{}\"", field, least, most, text));
}

Result<std::vector<std::string>> changed_labels(const LabelList& labels, const LabelList& added,
                                                const LabelList& removed) {
  std::set<std::string> all(labels.begin(), labels.end());
  for (const std::string& label : removed) all.erase(label);
  for (const std::string& label : added) {
    VOLADOR_TRY(check_words("label", label, 1, kNameMax));
    all.insert(label);
  }
  if (all.size() > kLabelsMost)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("labels: expected at most {}, got {}", kLabelsMost, all.size()));
  return std::vector<std::string>(all.begin(), all.end());
}

std::string name_of(const ExperimentRequester& by) {
  return by.user.empty() ? "token " + by.token_id : "user " + by.user;
}

Result<void> check_owner_of(std::string_view what, std::string_view thing, const ExperimentRequester& owner,
                            const ExperimentRequester& by) {
  const bool owns = owner.user.empty() ? by.token_id == owner.token_id : by.user == owner.user;
  if (owns || by.operates) return {};
  return make_error(
      ErrorCode::kPermissionDenied,
      fmt::format("{}: {} was created by {}, this request comes with {}; only its owner and operators may change it",
                  what, thing, name_of(owner),
                  by.user.empty() ? "token " + by.token_id : "a token of user " + by.user));
}

}  // namespace volador::experiments
