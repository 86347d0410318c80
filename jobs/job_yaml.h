// A job's specification, and the settings of the queue, as YAML: the fields of volador.v1.JobSpec, with units where a field has one.
//
//   name: digits
//   command: [python3, train.py]     # or one text, which bash runs
//   gpus: 1
//   memory: 16GiB                    # memory_bytes
//   duration: 2h                     # duration_s; graceful likewise
#pragma once

#include <string>

#include "jobs/job_set.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"

namespace volador::jobs {

// A file may describe several jobs: `alternatives`, of which one runs, or the `tasks` of a batch, each a list of maps
// with the fields that differ.
//
// kInvalidArgument: no YAML, an unknown field or a value of another type; the message begins with "name:line:column".
Result<JobSet> jobs_from_yaml(const std::string& text, const std::string& name);

// The job with other values for the fields of a YAML map. Errors as jobs_from_yaml().
Result<v1::JobSpec> with_fields(const v1::JobSpec& job, const std::string& map, const std::string& name);

// Settings of the queue: the fields of volador.v1.QueueSettings, whose lists are maps by name.
//
//   preemption: urgent
//   pools:
//     a100: {projects: [vision]}
//   projects:
//     vision: {weight: 2, limits: {gpus: 16, memory: 512GiB}, urgent_jobs: 4}
//   environments:
//     cuda12: {source: /opt/conda/envs/cuda12}
//   notifications:
//     ops-feishu: {kind: feishu, url: https://open.feishu.cn/open-apis/bot/v2/hook/…, secret: …, projects: [vision]}
//   mail: {host: smtp.example.org, user: volador, password: …, from: volador@example.org}
//
// Errors as jobs_from_yaml().
Result<v1::QueueSettings> settings_from_yaml(const std::string& text, const std::string& name);
// The inverse.
std::string yaml_of(const v1::QueueSettings& settings);

}  // namespace volador::jobs
