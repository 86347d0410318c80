// Conversions between API messages of shared studies and the types of tune/.
#pragma once

#include "runtime/protocol/volador/v1/studies.pb.h"
#include "tune/study/shared_study.h"

namespace volador {

// kInvalidArgument: the search space is not JSON.
[[nodiscard]] Result<tune::StudyDefinition> definition_of(const v1::CreateStudyRequest& request);
// kInvalidArgument: the state is not a final state.
[[nodiscard]] Result<tune::SharedStudy::TellRequest> told_of(const v1::TellRequest& request);

v1::Study to_api(const tune::SharedStudy& study);
v1::StudyTrial to_api(const tune::StudyTrial& trial);
// Names of differing members, for messages: "seed, space".
std::string differences(const tune::StudyDefinition& a, const tune::StudyDefinition& b);

}  // namespace volador
