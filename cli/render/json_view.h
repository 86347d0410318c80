// Cluster state as JSON for programs. The format is stable: fields may be added, but none changes its meaning or is
// removed in 1.x; every object contains "api_version": "v1". Resource amounts are numbers in whole units ("cpus": 0.5),
// memory is in bytes.
#pragma once

#include <string>

namespace volador::v1 {
class ExplainReply;
class ListActorsReply;
class ListNodesReply;
class ListTokensReply;
class ListGroupsReply;
class ListTrialsReply;
class ListAuditReply;
class ListObjectsReply;
class LogLine;
class StatusReply;
}  // namespace volador::v1

namespace volador::cli {

// Each ends with a line feed.
std::string status_json(const v1::StatusReply& status);
std::string nodes_json(const v1::ListNodesReply& nodes);
std::string actors_json(const v1::ListActorsReply& actors);
std::string groups_json(const v1::ListGroupsReply& groups);
std::string trials_json(const v1::ListTrialsReply& trials);
std::string memory_json(const v1::ListObjectsReply& objects);
std::string audit_json(const v1::ListAuditReply& audit);
std::string objects_json(const v1::ListObjectsReply& objects);
std::string tokens_json(const v1::ListTokensReply& tokens);
std::string explain_json(const v1::ExplainReply& reply);
std::string log_line_json(const v1::LogLine& line);  // One line.

}  // namespace volador::cli
