// Shared studies as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/render/terminal.h"

namespace volador::v1 {
class ListStudiesReply;
class ListStudyTrialsReply;
class Study;
class StudyTrial;
}  // namespace volador::v1

namespace volador::cli {

nlohmann::ordered_json study_json(const v1::Study& study);
nlohmann::ordered_json study_trial_json(const v1::StudyTrial& trial);
std::string studies_text(const v1::ListStudiesReply& reply, const Terminal& terminal);
std::string study_text(const v1::Study& study, const v1::ListStudyTrialsReply& trials, const Terminal& terminal);
// "3 running  lr 0.01  batch 32"
std::string study_trial_line(const v1::StudyTrial& trial);

}  // namespace volador::cli
