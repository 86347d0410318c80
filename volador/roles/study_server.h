// The head's shared studies: run on their own thread, where searchers compute, with their own store, so that they never
// delay the scheduler.
//
//   studies         name -> definition
//   study_states    name -> a snapshot and the number of the next event
//   study_events    name/number -> events since the snapshot
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

// Limits of the shared studies.
struct StudyServerLimits {
  size_t studies = 500;
  size_t config_bytes = size_t{128} << 20;  // Configurations of all trials of all studies, as JSON.
  size_t requests = 1024;                   // Queued for the thread.
  size_t deletions = 1000;                  // Deletions whose request ids are kept.
  size_t events_min = 50;                   // Events per study before they are replaced by a snapshot.
};

// Thread safe; requests return at once. `done` runs once on any thread; a stopping head may drop it. Changes are
// durable before a success is reported. kInvalidArgument, kNotFound: the message names the problem; kUnavailable: not
// done, or possibly done; retry with the same request id.
class StudyServer final {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;

  // Serves when it returns; requests wait until the store has been read. The clock must outlive it.
  StudyServer(std::unique_ptr<head::Journal> journal, const Clock& clock, const StudyServerLimits& limits = {});
  // Calls stop().
  ~StudyServer();

  // Drops queued requests and refuses later ones. Idempotent.
  void stop();

  // Registers the operations of Studies; call withdraw("Studies") before destroying this object.
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
