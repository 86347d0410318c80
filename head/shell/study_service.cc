#include "head/shell/study_service.h"

#include <mutex>

#include "head/shell/unary_answer.h"
#include "runtime/control/studies_port.h"
#include "runtime/protocol/volador/v1/studies.grpc.pb.h"

namespace volador::head {

class StudyService::Impl final : public v1::Studies::CallbackService {
 public:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  using Port = control::StudiesPort;

  Reactor* CreateStudy(Context* context, const v1::CreateStudyRequest* request, v1::Study* reply) override {
    return pass(context, *request, reply, &Port::create_study);
  }
  Reactor* GetStudy(Context* context, const v1::GetStudyRequest* request, v1::Study* reply) override {
    return pass(context, *request, reply, &Port::get_study);
  }
  Reactor* ListStudies(Context* context, const v1::ListStudiesRequest* request, v1::ListStudiesReply* reply) override {
    return pass(context, *request, reply, &Port::list_studies);
  }
  Reactor* DeleteStudy(Context* context, const v1::DeleteStudyRequest* request, v1::DeleteStudyReply* reply) override {
    return pass(context, *request, reply, &Port::delete_study);
  }
  Reactor* ListStudyTrials(Context* context, const v1::ListStudyTrialsRequest* request,
                           v1::ListStudyTrialsReply* reply) override {
    return pass(context, *request, reply, &Port::list_study_trials);
  }
  Reactor* Ask(Context* context, const v1::AskRequest* request, v1::AskReply* reply) override {
    return pass(context, *request, reply, &Port::ask);
  }
  Reactor* Tell(Context* context, const v1::TellRequest* request, v1::StudyTrial* reply) override {
    return pass(context, *request, reply, &Port::tell);
  }
  Reactor* Report(Context* context, const v1::ReportRequest* request, v1::ReportReply* reply) override {
    return pass(context, *request, reply, &Port::report);
  }

  void set_port(Port* port) {
    const std::lock_guard lock(mutex_);
    port_ = port;
  }

 private:
  template <class Request, class Reply>
  Reactor* pass(Context* context, const Request& request, Reply* reply,
                void (Port::*method)(const Request&, Port::Done<Reply>)) {
    auto* reactor = context->DefaultReactor();
    const auto answer = std::make_shared<UnaryAnswer>(reactor);
    const std::lock_guard lock(mutex_);
    if (port_ == nullptr) {
      answer->give(
          make_error(ErrorCode::kNotFound, "this head keeps no studies; one that `volador start --head` started does"));
      return reactor;
    }
    (port_->*method)(request, [answer, reply](Result<Reply> result) {
      if (!result) return answer->give(make_error(result.error()));
      *reply = std::move(*result);
      answer->give({});
    });
    return reactor;
  }

  std::mutex mutex_;
  Port* port_ = nullptr;
};

StudyService::StudyService() : impl_(std::make_unique<Impl>()) {}
StudyService::~StudyService() = default;
grpc::Service* StudyService::service() { return impl_.get(); }
void StudyService::set_port(control::StudiesPort* port) { impl_->set_port(port); }

}  // namespace volador::head
