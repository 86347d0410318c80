// A cluster's state as tables for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/render/terminal.h"

namespace volador::v1 {
class ExplainReply;
class ListActorsReply;
class ListNodesReply;
class ListAuditReply;
class ListTokensReply;
class ListGroupsReply;
class ListTrialsReply;
class ListObjectsReply;
class StatusReply;
class Node;
}  // namespace volador::v1

namespace volador::cli {

// Its experiments in the order of the reply: those that run, and the first few of the others.
std::string status_text(const v1::StatusReply& status, const Terminal& terminal);
std::string nodes_text(const v1::ListNodesReply& nodes, const Terminal& terminal);
std::string actors_text(const v1::ListActorsReply& actors, const Terminal& terminal);
std::string groups_text(const v1::ListGroupsReply& groups, const Terminal& terminal);
// With the columns of metrics and configuration that the trials shown have, metrics first, at most kTrialColumnsMax of
// each.
std::string trials_text(const v1::ListTrialsReply& trials, const Terminal& terminal);
std::string memory_text(const v1::ListObjectsReply& objects, const Terminal& terminal);
std::string objects_text(const v1::ListObjectsReply& objects, const Terminal& terminal);
std::string audit_text(const v1::ListAuditReply& audit, const Terminal& terminal);
std::string tokens_text(const v1::ListTokensReply& tokens, const Terminal& terminal, int64_t now_wall_ns);

inline constexpr size_t kTrialColumnsMax = 6;
inline constexpr size_t kEndedExperimentsShown = 5;  // By status_text, besides those that run.

// The place of a state in a list: what runs first, then what waits, then what has ended.
int state_rank(std::string_view state);

// The cell of a run's time left: "0:51" while it runs, "–" where nothing is known; empty for a run that does not run.
std::string left_cell(std::string_view state, std::optional<double> seconds);

// "16 CPUs · 62 GiB · 2 GPUs (NVIDIA L4)".
std::string capacity_text(const v1::Node& node);

}  // namespace volador::cli
