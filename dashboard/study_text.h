// Shared studies as JSON rows.
#pragma once

#include <string>

namespace volador::v1 {
class AskReply;
class ReportReply;
class Study;
class StudyTrial;
}  // namespace volador::v1

namespace volador::dashboard {

std::string study_text(const v1::Study& study);
std::string study_trial_text(const v1::StudyTrial& trial);
std::string ask_text(const v1::AskReply& reply);
std::string report_text(const v1::ReportReply& reply);

}  // namespace volador::dashboard
