// Jobs and users over HTTP: lists, single jobs and the state of the queue. The routes that change them are those of the operations of
// volador.v1.Jobs and volador.v1.Users.
#include <nlohmann/json.hpp>

#include "dashboard/api.h"
#include "dashboard/api_later.h"
#include "dashboard/operation_json.h"
#include "dashboard/row_list.h"
#include "runtime/base64.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/protocol/volador/v1/users.pb.h"

namespace volador::dashboard {
namespace {

constexpr int32_t kJobsMost = 20'000;  // More than the head keeps.

std::string text_of_row(const google::protobuf::Message& row) {
  return json_of(row).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
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
                                for (const v1::Job& job : found.jobs()) rows.push_back(text_of_row(job));
                                return json_response(wanted.page({rows.begin(), rows.end()}));
                              });
}

void Api::list_users(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  call_for<v1::ListUsersReply>("Users/ListUsers", call, v1::ListUsersRequest(), respond,
                               [wanted = *wanted](const v1::ListUsersReply& found) {
                                 std::vector<std::string> rows;
                                 for (const v1::User& user : found.users()) rows.push_back(text_of_row(user));
                                 return json_response(wanted.page({rows.begin(), rows.end()}));
                               });
}

void Api::list_user_groups(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  call_for<v1::ListUserGroupsReply>("Users/ListUserGroups", call, v1::ListUserGroupsRequest(), respond,
                                    [wanted = *wanted](const v1::ListUserGroupsReply& found) {
                                      std::vector<std::string> rows;
                                      for (const v1::UserGroup& group : found.groups())
                                        rows.push_back(text_of_row(group));
                                      return json_response(wanted.page({rows.begin(), rows.end()}));
                                    });
}

void Api::get_job(const Call& call, const Respond& respond) {
  v1::GetJobRequest request;
  request.set_job(call.path.at("job"));
  call_for<v1::Job>("Jobs/GetJob", call, request, respond,
                    [](const v1::Job& job) { return json_response(text_of_row(job)); });
}

void Api::list_usage(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  call_for<v1::GetUsageReply>("Jobs/GetUsage", call, v1::GetUsageRequest(), respond,
                              [wanted = *wanted](const v1::GetUsageReply& found) {
                                std::vector<std::string> rows;
                                for (const v1::Usage& row : found.usage()) rows.push_back(text_of_row(row));
                                return json_response(wanted.page({rows.begin(), rows.end()}));
                              });
}

void Api::get_queue(const Call& call, const Respond& respond) {
  call_for<v1::GetQueueReply>("Jobs/GetQueue", call, v1::GetQueueRequest(), respond,
                              [](const v1::GetQueueReply& reply) { return json_response(text_of_row(reply)); });
}

void Api::put_job_files(const Call& call, const Respond& respond) {
  const auto& body = *call.json;
  v1::PutJobFilesRequest request;
  request.set_sha256(body.value("sha256", ""));
  request.set_size_bytes(body.value("size_bytes", int64_t{0}));
  request.set_offset(body.value("offset", int64_t{0}));
  request.set_data(from_base64(body.value("data", "")).value_or(""));
  call_for<v1::PutJobFilesReply>("Jobs/PutJobFiles", call, request, respond,
                                 [](const v1::PutJobFilesReply& reply) { return json_response(text_of_row(reply)); });
}

}  // namespace volador::dashboard
