// A job's specification as YAML: the fields of volador.v1.JobSpec, with units where a field has one.
//
//   name: digits
//   command: [python3, train.py]     # or one text, which bash runs
//   gpus: 1
//   memory: 16GiB                    # memory_bytes
//   duration: 2h                     # duration_s; graceful likewise
#pragma once

#include <string>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"

namespace volador::jobs {

// kInvalidArgument: no YAML, an unknown field or a value of another type; the message begins with "name:line:column".
Result<v1::JobSpec> spec_from_yaml(const std::string& text, const std::string& name);

}  // namespace volador::jobs
