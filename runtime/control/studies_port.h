// What keeps the shared studies, as those see it who carry requests to it: the gRPC service and the HTTP API.
#pragma once

#include <functional>

#include "runtime/protocol/volador/v1/studies.pb.h"
#include "runtime/result.h"

namespace volador::control {

// Thread safe; returns at once. `done` runs once on any thread, or is dropped where the head stops meanwhile. What is
// answered well is stored. Any of them: kInvalidArgument, kNotFound name what is wrong; kUnavailable: not done, or not
// known to be, ask again with the same request id.
class StudiesPort {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;

  virtual ~StudiesPort() = default;
  virtual void create_study(const v1::CreateStudyRequest& request, Done<v1::Study> done) = 0;
  virtual void get_study(const v1::GetStudyRequest& request, Done<v1::Study> done) = 0;
  virtual void list_studies(const v1::ListStudiesRequest& request, Done<v1::ListStudiesReply> done) = 0;
  virtual void delete_study(const v1::DeleteStudyRequest& request, Done<v1::DeleteStudyReply> done) = 0;
  virtual void list_study_trials(const v1::ListStudyTrialsRequest& request, Done<v1::ListStudyTrialsReply> done) = 0;
  virtual void ask(const v1::AskRequest& request, Done<v1::AskReply> done) = 0;
  virtual void tell(const v1::TellRequest& request, Done<v1::StudyTrial> done) = 0;
  virtual void report(const v1::ReportRequest& request, Done<v1::ReportReply> done) = 0;
};

}  // namespace volador::control
