// Experiments in the form of Determined, and models, over HTTP: lists and single rows. The routes that change them are
// those of the operations of volador.v1.Experiments and volador.v1.Models.
#include <nlohmann/json.hpp>

#include "dashboard/api.h"
#include "dashboard/api_later.h"
#include "dashboard/operation_json.h"
#include "dashboard/row_list.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/katib.pb.h"
#include "runtime/protocol/volador/v1/models.pb.h"
#include "runtime/quantities.h"

namespace volador::dashboard {
namespace {

constexpr int32_t kDeterminedRowsMost = 10'000;  // In one list.
constexpr int32_t kKatibRowsMost = 100'000;      // Likewise.

std::string text_of_info(const google::protobuf::Message& row) {
  return json_of(row).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

template <class Rows>
HttpResponse page_of(const RowList& wanted, const Rows& found) {
  std::vector<std::string> rows;
  for (const auto& row : found) rows.push_back(text_of_info(row));
  return json_response(wanted.page({rows.begin(), rows.end()}));
}

// A number in the path: an id.
Result<int64_t> number_in(const Api::Call& call, const std::string& name) {
  const std::string& text = call.path.at(name);
  if (const auto number = parse_integer(text)) return *number;
  return make_error(ErrorCode::kInvalidArgument,
                    name + ": expected a whole number in the path, got \"" + text.substr(0, 80) + "\"");
}

}  // namespace

void Api::list_determined_experiments(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  v1::ListExperimentsRequest request;
  request.set_archived(true);
  request.set_limit(kDeterminedRowsMost);
  call_for<v1::ListExperimentsReply>(
      "Experiments/ListExperiments", call, request, respond,
      [wanted = *wanted](const v1::ListExperimentsReply& found) { return page_of(wanted, found.experiments()); });
}

void Api::get_determined_experiment(const Call& call, const Respond& respond) {
  const auto id = number_in(call, "id");
  if (!id) return respond(problem(id.error()));
  v1::GetExperimentRequest request;
  request.set_id(*id);
  call_for<v1::ExperimentInfo>("Experiments/GetExperiment", call, request, respond,
                               [](const v1::ExperimentInfo& found) { return json_response(text_of_info(found)); });
}

void Api::get_experiment_code(const Call& call, const Respond& respond) {
  const auto id = number_in(call, "id");
  const auto offset = integer_in(call.query, "offset", 0, 0, kCodeBytesMost);
  for (const auto* one : {&id, &offset}) {
    if (!*one) return respond(problem(one->error()));
  }
  v1::GetExperimentFilesRequest request;
  request.set_id(*id);
  request.set_offset(*offset);
  call_for<v1::GetExperimentFilesReply>(
      "Experiments/GetExperimentFiles", call, request, respond,
      [](const v1::GetExperimentFilesReply& piece) { return json_response(text_of_info(piece)); });
}

void Api::list_determined_trials(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  const auto id = number_in(call, "id");
  if (!id) return respond(problem(id.error()));
  v1::ListTrialInfosRequest request;
  request.set_experiment(*id);
  request.set_limit(kDeterminedRowsMost);
  call_for<v1::ListTrialInfosReply>(
      "Experiments/ListTrialInfos", call, request, respond,
      [wanted = *wanted](const v1::ListTrialInfosReply& found) { return page_of(wanted, found.trials()); });
}

void Api::get_determined_trial(const Call& call, const Respond& respond) {
  const auto id = number_in(call, "id");
  if (!id) return respond(problem(id.error()));
  v1::GetTrialInfoRequest request;
  request.set_id(*id);
  call_for<v1::TrialInfo>("Experiments/GetTrialInfo", call, request, respond,
                          [](const v1::TrialInfo& found) { return json_response(text_of_info(found)); });
}

void Api::get_trial_metrics(const Call& call, const Respond& respond) {
  const auto id = number_in(call, "trial");
  const auto from = integer_in(call.query, "from_batch", 0, 0, kBatchesMost);
  const auto to = integer_in(call.query, "to_batch", 0, 0, kBatchesMost);
  const auto points = integer_in(call.query, "points", 0, 2, 100'000);
  for (const auto* one : {&id, &from, &to, &points}) {
    if (!*one) return respond(problem(one->error()));
  }
  v1::GetMetricsRequest request;
  request.add_trials(*id);
  request.set_group(text_in(call.query, "group"));
  for (std::string& name : texts_in(call.query, "metrics")) request.add_metrics(std::move(name));
  request.set_from_batch(*from);
  request.set_to_batch(*to);
  request.set_max_points(static_cast<int32_t>(*points));
  call_for<v1::GetMetricsReply>("Experiments/GetMetrics", call, request, respond,
                                [](const v1::GetMetricsReply& found) { return json_response(text_of_info(found)); });
}

void Api::list_katib_resources(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  v1::ListKatibResourcesRequest request;
  request.set_kind(text_in(call.query, "kind"));
  request.set_namespace_(text_in(call.query, "namespace"));
  request.set_name(text_in(call.query, "name"));
  for (const std::string& label : texts_in(call.query, "labels")) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos)
      return respond(problem(Error{ErrorCode::kInvalidArgument, "labels: expected name=value, got \"" + label + "\""}));
    (*request.mutable_labels())[label.substr(0, equals)] = label.substr(equals + 1);
  }
  request.set_limit(kKatibRowsMost);
  call_for<v1::ListKatibResourcesReply>(
      "Katib/ListKatibResources", call, request, respond,
      [wanted = *wanted](const v1::ListKatibResourcesReply& found) { return page_of(wanted, found.resources()); });
}

void Api::list_katib_algorithms(const Call& call, const Respond& respond) {
  call_for<v1::ListKatibAlgorithmsReply>(
      "Katib/ListKatibAlgorithms", call, v1::ListKatibAlgorithmsRequest(), respond,
      [](const v1::ListKatibAlgorithmsReply& found) { return json_response(text_of_info(found)); });
}

void Api::list_checkpoints(v1::ListCheckpointsRequest request, const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  request.set_deleted(true);
  request.set_limit(kDeterminedRowsMost);
  call_for<v1::ListCheckpointsReply>(
      "Experiments/ListCheckpoints", call, request, respond,
      [wanted = *wanted](const v1::ListCheckpointsReply& found) { return page_of(wanted, found.checkpoints()); });
}

void Api::list_experiment_checkpoints(const Call& call, const Respond& respond) {
  const auto id = number_in(call, "id");
  if (!id) return respond(problem(id.error()));
  v1::ListCheckpointsRequest request;
  request.set_experiment(*id);
  list_checkpoints(std::move(request), call, respond);
}

void Api::list_trial_checkpoints(const Call& call, const Respond& respond) {
  const auto id = number_in(call, "trial");
  if (!id) return respond(problem(id.error()));
  v1::ListCheckpointsRequest request;
  request.set_trial(*id);
  list_checkpoints(std::move(request), call, respond);
}

void Api::get_checkpoint(const Call& call, const Respond& respond) {
  v1::GetCheckpointRequest request;
  request.set_id(call.path.at("id"));
  call_for<v1::CheckpointInfo>("Experiments/GetCheckpoint", call, request, respond,
                               [](const v1::CheckpointInfo& found) { return json_response(text_of_info(found)); });
}

void Api::list_models(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  v1::ListModelsRequest request;
  request.set_archived(true);
  request.set_limit(kDeterminedRowsMost);
  call_for<v1::ListModelsReply>(
      "Models/ListModels", call, request, respond,
      [wanted = *wanted](const v1::ListModelsReply& found) { return page_of(wanted, found.models()); });
}

void Api::get_model(const Call& call, const Respond& respond) {
  v1::GetModelRequest request;
  request.set_model(call.path.at("model"));
  call_for<v1::Model>("Models/GetModel", call, request, respond,
                      [](const v1::Model& found) { return json_response(text_of_info(found)); });
}

void Api::list_model_versions(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  v1::ListModelVersionsRequest request;
  request.set_model(call.path.at("model"));
  request.set_limit(kDeterminedRowsMost);
  call_for<v1::ListModelVersionsReply>(
      "Models/ListModelVersions", call, request, respond,
      [wanted = *wanted](const v1::ListModelVersionsReply& found) { return page_of(wanted, found.versions()); });
}

void Api::get_model_version(const Call& call, const Respond& respond) {
  v1::GetModelVersionRequest request;
  request.set_model(call.path.at("model"));
  request.set_version(call.path.at("version"));
  call_for<v1::ModelVersion>("Models/GetModelVersion", call, request, respond,
                             [](const v1::ModelVersion& found) { return json_response(text_of_info(found)); });
}

}  // namespace volador::dashboard
