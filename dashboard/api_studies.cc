// Shared studies over HTTP: replies of volador.v1.Studies as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dashboard/api.h"
#include "dashboard/api_later.h"
#include "dashboard/row_list.h"
#include "dashboard/study_text.h"
#include "runtime/protocol/volador/v1/studies.pb.h"

namespace volador::dashboard {
namespace {

constexpr int32_t kTrialsMost = 20'000;  // All trials of a study.

// 400 if the number in the path is invalid.
Result<int64_t> number_in(const Query& path) { return integer_in(path, "number", -1, 0, int64_t{1} << 40); }

}  // namespace

void Api::list_studies(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  call_for<v1::ListStudiesReply>("Studies/ListStudies", call, v1::ListStudiesRequest(), respond,
                                 [wanted = *wanted](const v1::ListStudiesReply& found) {
                                   std::vector<std::string> rows;
                                   for (const v1::Study& study : found.studies()) rows.push_back(study_text(study));
                                   return json_response(wanted.page({rows.begin(), rows.end()}));
                                 });
}

void Api::list_study_trials(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  v1::ListStudyTrialsRequest request;
  request.set_study(call.path.at("name"));
  request.set_page_size(kTrialsMost);
  call_for<v1::ListStudyTrialsReply>("Studies/ListStudyTrials", call, request, respond,
                                     [wanted = *wanted](const v1::ListStudyTrialsReply& found) {
                                       std::vector<std::string> rows;
                                       for (const v1::StudyTrial& trial : found.trials())
                                         rows.push_back(study_trial_text(trial));
                                       return json_response(wanted.page({rows.begin(), rows.end()}));
                                     });
}

void Api::get_study(const Call& call, const Respond& respond) {
  v1::GetStudyRequest request;
  request.set_study(call.path.at("name"));
  call_for<v1::Study>("Studies/GetStudy", call, request, respond,
                      [](const v1::Study& study) { return json_response(study_text(study)); });
}

void Api::create_study(const Call& call, const Respond& respond) {
  const auto& body = *call.json;
  v1::CreateStudyRequest request;
  request.set_request_id(body.value("request_id", ""));
  request.set_name(body.value("name", ""));
  request.set_space_json(body.at("space").dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  request.set_searcher(body.value("searcher", ""));
  request.set_scheduler(body.value("scheduler", ""));
  for (const auto& one : body.at("objectives")) {
    v1::StudyObjective& objective = *request.add_objectives();
    objective.set_metric(one.at("metric").get<std::string>());
    objective.set_mode(one.at("mode").get<std::string>());
  }
  const auto seed = body.value("seed", int64_t{0});
  if (seed < 0)
    return respond(problem({ErrorCode::kInvalidArgument, fmt::format("seed: expected at least 0, got {}", seed)}));
  request.set_seed(static_cast<uint64_t>(seed));
  request.set_max_trials(body.value("max_trials", int64_t{0}));
  if (body.contains("lease_s")) request.set_lease_s(body["lease_s"].get<int64_t>());
  if (body.contains("max_retries")) request.set_max_retries(body["max_retries"].get<int64_t>());
  request.set_load_if_exists(body.value("load_if_exists", false));
  call_for<v1::Study>("Studies/CreateStudy", call, request, respond,
                      [](const v1::Study& study) { return json_response(study_text(study), 201); });
}

void Api::delete_study(const Call& call, const Respond& respond) {
  v1::DeleteStudyRequest request;
  request.set_study(call.path.at("name"));
  request.set_request_id(text_in(call.query, "request_id"));
  call_for<v1::DeleteStudyReply>("Studies/DeleteStudy", call, request, respond,
                                 [](const v1::DeleteStudyReply&) { return json_response("{}"); });
}

void Api::ask_study(const Call& call, const Respond& respond) {
  v1::AskRequest request;
  request.set_study(call.path.at("name"));
  request.set_request_id(call.json->value("request_id", ""));
  request.set_count(call.json->value("count", int64_t{1}));
  request.set_worker(call.json->value("worker", ""));
  if (request.count() == 0) return respond(problem({ErrorCode::kInvalidArgument, "count: expected at least 1, got 0"}));
  call_for<v1::AskReply>("Studies/Ask", call, request, respond,
                         [](const v1::AskReply& reply) { return json_response(ask_text(reply)); });
}

void Api::tell_study(const Call& call, const Respond& respond) {
  const auto number = number_in(call.path);
  if (!number) return respond(problem(number.error()));
  v1::TellRequest request;
  request.set_study(call.path.at("name"));
  request.set_number(*number);
  request.set_request_id(call.json->value("request_id", ""));
  request.set_state(call.json->value("state", ""));
  request.set_reason(call.json->value("reason", ""));
  if (call.json->contains("values")) {
    for (const auto& value : call.json->at("values")) request.add_values(number_of(value));
  }
  call_for<v1::StudyTrial>("Studies/Tell", call, request, respond,
                           [](const v1::StudyTrial& trial) { return json_response(study_trial_text(trial)); });
}

void Api::report_study(const Call& call, const Respond& respond) {
  const auto number = number_in(call.path);
  if (!number) return respond(problem(number.error()));
  v1::ReportRequest request;
  request.set_study(call.path.at("name"));
  request.set_number(*number);
  request.set_request_id(call.json->value("request_id", ""));
  request.set_step(call.json->value("step", int64_t{0}));
  if (request.step() > 0 && !call.json->contains("value"))
    return respond(
        problem({ErrorCode::kInvalidArgument, "value: it is missing; a step comes with what the metric is there"}));
  if (call.json->contains("value")) request.set_value(number_of(call.json->at("value")));
  call_for<v1::ReportReply>("Studies/Report", call, request, respond,
                            [](const v1::ReportReply& reply) { return json_response(report_text(reply)); });
}

}  // namespace volador::dashboard
