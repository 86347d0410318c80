// The operations of TensorBoards, on the thread of the experiments that they show.
#include <utility>

#include "runtime/protocol/volador/v1/tensorboards.pb.h"
#include "volador/roles/experiment_server_impl.h"

namespace volador {
TensorBoardJobs::Parts ExperimentServer::Impl::board_parts() {
  return {.registry = registry,
          .random = random,
          .submit = options.submit,
          .post = [this](std::function<void()> function) { post(std::move(function)); },
          .env = [this] { return job_env(); },
          .token = [this](const Principal& by, const std::string& note,
                          Done<Token> done) { make_token(by, note, std::move(done)); },
          .revoke = [this](const std::string& token) { jobs.revoke(token); },
          .check_experiment = [this](int64_t id) -> Result<void> {
            const auto found = core.get(id, head_itself());
            return found ? Result<void>() : make_error(found.error());
          },
          .check_trial = [this](int64_t id) -> Result<void> {
            const auto found = core.trial(id, head_itself());
            return found ? Result<void>() : make_error(found.error());
          }};
}

void ExperimentServer::Impl::serve_boards() {
  registry.serve<v1::StartTensorBoardRequest, v1::StartTensorBoardReply>(
      "TensorBoards/StartTensorBoard",
      [this](const Principal& by, const v1::StartTensorBoardRequest& request, Done<v1::StartTensorBoardReply> done) {
        queue<v1::StartTensorBoardReply>(done, [this, by, request, done] {
          refusal ? done(make_error(*refusal)) : boards.start(by, request, done);
        });
      });
  registry.serve<v1::ListTensorBoardsRequest, v1::ListTensorBoardsReply>(
      "TensorBoards/ListTensorBoards",
      [this](const Principal& by, const v1::ListTensorBoardsRequest& request, Done<v1::ListTensorBoardsReply> done) {
        boards.list(by, request, std::move(done));
      });
}

}  // namespace volador
