// Operations of the model registry, on the thread of the experiments, whose checkpoints its versions name.
#include "volador/roles/experiment_server_impl.h"

namespace volador {

void ExperimentServer::Impl::serve_models() {
  serve<v1::CreateModelRequest, v1::Model>("Models/CreateModel",
                                           [this](const Principal& by, const v1::CreateModelRequest& request) {
                                             return models.create(request, requester_from(by), now_ms());
                                           });
  serve<v1::GetModelRequest, v1::Model>(
      "Models/GetModel",
      [this](const Principal&, const v1::GetModelRequest& request) { return models.get(request.model()); });
  serve<v1::ListModelsRequest, v1::ListModelsReply>(
      "Models/ListModels",
      [this](const Principal&, const v1::ListModelsRequest& request) { return models.list(request); });
  serve<v1::EditModelRequest, v1::Model>("Models/EditModel",
                                         [this](const Principal& by, const v1::EditModelRequest& request) {
                                           return models.edit(request, requester_from(by), now_ms());
                                         });
  serve<v1::DeleteModelRequest, v1::DeleteModelReply>(
      "Models/DeleteModel",
      [this](const Principal& by, const v1::DeleteModelRequest& request) -> Result<v1::DeleteModelReply> {
        VOLADOR_TRY(models.remove(request, requester_from(by)));
        return v1::DeleteModelReply();
      });
  serve<v1::RegisterModelVersionRequest, v1::ModelVersion>(
      "Models/RegisterModelVersion", [this](const Principal& by, const v1::RegisterModelVersionRequest& request) {
        return models.register_version(request, requester_from(by), now_ms());
      });
  serve<v1::GetModelVersionRequest, v1::ModelVersion>(
      "Models/GetModelVersion", [this](const Principal& by, const v1::GetModelVersionRequest& request) {
        return models.version(request, requester_from(by));
      });
  serve<v1::ListModelVersionsRequest, v1::ListModelVersionsReply>(
      "Models/ListModelVersions", [this](const Principal& by, const v1::ListModelVersionsRequest& request) {
        return models.versions(request, requester_from(by));
      });
  serve<v1::EditModelVersionRequest, v1::ModelVersion>(
      "Models/EditModelVersion", [this](const Principal& by, const v1::EditModelVersionRequest& request) {
        return models.edit_version(request, requester_from(by), now_ms());
      });
  serve<v1::DeleteModelVersionRequest, v1::DeleteModelVersionReply>(
      "Models/DeleteModelVersion",
      [this](const Principal& by, const v1::DeleteModelVersionRequest& request) -> Result<v1::DeleteModelVersionReply> {
        VOLADOR_TRY(models.remove_version(request, requester_from(by), now_ms()));
        return v1::DeleteModelVersionReply();
      });
}

}  // namespace volador
