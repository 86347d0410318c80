// Cluster state as tables for users.
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

// Lists experiments in the order of the reply: running ones, and the first few of the others.
std::string status_text(const v1::StatusReply& status, const Terminal& terminal);
std::string nodes_text(const v1::ListNodesReply& nodes, const Terminal& terminal);
std::string actors_text(const v1::ListActorsReply& actors, const Terminal& terminal);
std::string groups_text(const v1::ListGroupsReply& groups, const Terminal& terminal);
// Includes the metric and configuration columns of the trials shown, metrics first, at most kTrialColumnsMax each.
std::string trials_text(const v1::ListTrialsReply& trials, const Terminal& terminal);
std::string memory_text(const v1::ListObjectsReply& objects, const Terminal& terminal);
std::string objects_text(const v1::ListObjectsReply& objects, const Terminal& terminal);
std::string audit_text(const v1::ListAuditReply& audit, const Terminal& terminal);
std::string tokens_text(const v1::ListTokensReply& tokens, const Terminal& terminal, int64_t now_wall_ns);

inline constexpr size_t kTrialColumnsMax = 6;
inline constexpr size_t kEndedExperimentsShown = 5;  // In status_text(), in addition to running ones.

// Sort key of a state in lists: running, then waiting, then ended.
int state_rank(std::string_view state);

// Cell with a run's time left: "0:51" while it runs, "–" if unknown; empty for a run that is not running.
std::string left_cell(std::string_view state, std::optional<double> seconds);

// "16 CPUs · 62 GiB · 2 GPUs (NVIDIA L4)".
std::string capacity_text(const v1::Node& node);

}  // namespace volador::cli
