// Jobs over HTTP: lists, single jobs and the state of the queue. The routes that change jobs are those of the operations of volador.v1.Jobs.
#include <nlohmann/json.hpp>

#include "dashboard/api.h"
#include "dashboard/api_later.h"
#include "dashboard/operation_json.h"
#include "dashboard/row_list.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"

namespace volador::dashboard {
namespace {

constexpr int32_t kJobsMost = 20'000;  // More than the head keeps.

std::string job_text(const v1::Job& job) {
  return json_of(job).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

void Api::list_jobs(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  v1::ListJobsRequest request;
  request.set_limit(kJobsMost);
  call_for<v1::ListJobsReply>("Jobs/ListJobs", call, request, respond,
                              [wanted = *wanted](const v1::ListJobsReply& found) {
                                std::vector<std::string> rows;
                                for (const v1::Job& job : found.jobs()) rows.push_back(job_text(job));
                                return json_response(wanted.page({rows.begin(), rows.end()}));
                              });
}

void Api::get_job(const Call& call, const Respond& respond) {
  v1::GetJobRequest request;
  request.set_job(call.path.at("job"));
  call_for<v1::Job>("Jobs/GetJob", call, request, respond,
                    [](const v1::Job& job) { return json_response(job_text(job)); });
}

void Api::get_queue(const Call& call, const Respond& respond) {
  call_for<v1::GetQueueReply>(
      "Jobs/GetQueue", call, v1::GetQueueRequest(), respond, [](const v1::GetQueueReply& reply) {
        return json_response(json_of(reply).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
      });
}

}  // namespace volador::dashboard
