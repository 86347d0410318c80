// Rules that experiments and models of the registry share: names, texts, labels, and who may change them.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/core/experiment_core.h"
#include "runtime/result.h"

namespace volador::experiments {

inline constexpr size_t kNameMax = 128;       // Bytes of a name or a label.
inline constexpr size_t kTextMax = 64 << 10;  // Bytes of a description or notes.
inline constexpr int kLabelsMost = 100;       // Labels of one experiment or model.

// kInvalidArgument: shorter or longer, or not one line of printable text.
Result<void> check_words(std::string_view field, const std::string& text, size_t least, size_t most);

// The labels after a change, sorted. kInvalidArgument: one of the new ones is no label, or they are too many.
using LabelList = google::protobuf::RepeatedPtrField<std::string>;
Result<std::vector<std::string>> changed_labels(const LabelList& labels, const LabelList& added,
                                                const LabelList& removed);

// "user ada", or "token 3f2a" of a requester without a user.
std::string name_of(const ExperimentRequester& by);

// kPermissionDenied: `by` is neither the owner (the user, else the token) nor an operator. `what`: "pause experiment 7";
// `thing`: "experiment 7".
Result<void> check_owner_of(std::string_view what, std::string_view thing, const ExperimentRequester& owner,
                            const ExperimentRequester& by);

}  // namespace volador::experiments
