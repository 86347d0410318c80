// Models of the registry and their versions as text.
#pragma once

#include <cstdint>
#include <string>

#include "cli/render/terminal.h"

namespace volador::v1 {
class ListModelsReply;
class ListModelVersionsReply;
class Model;
class ModelVersion;
}  // namespace volador::v1

namespace volador::cli {

// One line: "model digits: 3 versions; production → 2".
std::string model_line(const v1::Model& model, const Terminal& terminal);
std::string models_text(const v1::ListModelsReply& reply, int64_t now_ms, const Terminal& terminal);
// With its newest versions.
std::string model_text(const v1::Model& model, const v1::ListModelVersionsReply& versions, int64_t now_ms,
                       const Terminal& terminal);

std::string model_version_line(const v1::ModelVersion& version, const Terminal& terminal);
std::string model_versions_text(const v1::ListModelVersionsReply& reply, int64_t now_ms, const Terminal& terminal);
std::string model_version_text(const v1::ModelVersion& version, int64_t now_ms, const Terminal& terminal);

}  // namespace volador::cli
