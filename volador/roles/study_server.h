// The head's shared studies: a thread of their own, where searchers compute, and a store of their own beside the
// head's, so that nothing of it is in the scheduler's way.
//
//   studies         name -> definition
//   study_states    name -> a snapshot and the number of the event that follows it
//   study_events    name/number -> what happened since
//   study_requests  request id -> a deletion
#pragma once

#include <functional>
#include <memory>

#include "head/journal/journal.h"
#include "runtime/clock.h"
#include "runtime/protocol/volador/v1/studies.pb.h"
#include "runtime/result.h"

namespace volador::operations {
class Registry;
}

namespace volador {

struct StudyServerLimits {
  size_t studies = 500;
  size_t config_bytes = size_t{128} << 20;  // Of the trials of all studies, as JSON.
  size_t requests = 1024;                   // That wait for the thread.
  size_t deletions = 1000;                  // Whose request ids are known.
  size_t events_min = 50;                 // Of a study, before a snapshot takes their place.
};

// Thread safe; requests return at once. `done` runs once on any thread, or is dropped where the head stops meanwhile. A successful reply is
// stored. kInvalidArgument, kNotFound name what is wrong; kUnavailable: not done, or not known to be; retry with the same request id.
class StudyServer final {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;

  // Serves when it returns; what comes before the store has been read waits for that. The clock outlives it.
  StudyServer(std::unique_ptr<head::Journal> journal, const Clock& clock, const StudyServerLimits& limits = {});
  // As stop().
  ~StudyServer();

  // What waits is dropped, everything later refused. Repeated calls do nothing.
  void stop();

  // Registers the operations of Studies; withdraw("Studies") before the end of this.
  void serve_on(operations::Registry& registry);

  void create_study(const v1::CreateStudyRequest& request, Done<v1::Study> done);
  void get_study(const v1::GetStudyRequest& request, Done<v1::Study> done);
  void list_studies(const v1::ListStudiesRequest& request, Done<v1::ListStudiesReply> done);
  void delete_study(const v1::DeleteStudyRequest& request, Done<v1::DeleteStudyReply> done);
  void list_study_trials(const v1::ListStudyTrialsRequest& request, Done<v1::ListStudyTrialsReply> done);
  void ask(const v1::AskRequest& request, Done<v1::AskReply> done);
  void tell(const v1::TellRequest& request, Done<v1::StudyTrial> done);
  void report(const v1::ReportRequest& request, Done<v1::ReportReply> done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador
