// Shared studies between what the API says and what tune/ knows.
#pragma once

#include "runtime/protocol/volador/v1/studies.pb.h"
#include "tune/study/shared_study.h"

namespace volador {

// kInvalidArgument: the space is no JSON.
[[nodiscard]] Result<tune::StudyDefinition> definition_of(const v1::CreateStudyRequest& request);
// kInvalidArgument: the state is no word for an end.
[[nodiscard]] Result<tune::SharedStudy::TellRequest> told_of(const v1::TellRequest& request);

v1::Study to_api(const tune::SharedStudy& study);
v1::StudyTrial to_api(const tune::StudyTrial& trial);
// What differs, for people: "seed, space".
std::string differences(const tune::StudyDefinition& a, const tune::StudyDefinition& b);

}  // namespace volador
