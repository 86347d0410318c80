// The head's shared studies: a thread of their own, where searchers compute, and a store of their own beside the
// head's, so that nothing of it is in the scheduler's way.
//
//   studies         name -> definition
//   study_states    name -> a snapshot and the number of the event that follows it
//   study_events    name/number -> what happened since
//   study_requests  request id -> a deletion
#pragma once

#include <memory>

#include "head/journal/journal.h"
#include "runtime/clock.h"
#include "runtime/control/studies_port.h"

namespace volador {

struct StudyServerLimits {
  size_t studies = 500;
  size_t config_bytes = size_t{128} << 20;  // Of the trials of all studies, as JSON.
  size_t requests = 1024;                   // That wait for the thread.
  size_t deletions = 1000;                  // Whose request ids are known.
  size_t events_min = 50;                 // Of a study, before a snapshot takes their place.
};

class StudyServer final : public control::StudiesPort {
 public:
  // Serves when it returns; what comes before the store has been read waits for that. The clock outlives it.
  StudyServer(std::unique_ptr<head::Journal> journal, const Clock& clock, const StudyServerLimits& limits = {});
  // As stop().
  ~StudyServer() override;

  // What waits is dropped, everything later refused. Repeated calls do nothing.
  void stop();

  void create_study(const v1::CreateStudyRequest& request, Done<v1::Study> done) override;
  void get_study(const v1::GetStudyRequest& request, Done<v1::Study> done) override;
  void list_studies(const v1::ListStudiesRequest& request, Done<v1::ListStudiesReply> done) override;
  void delete_study(const v1::DeleteStudyRequest& request, Done<v1::DeleteStudyReply> done) override;
  void list_study_trials(const v1::ListStudyTrialsRequest& request, Done<v1::ListStudyTrialsReply> done) override;
  void ask(const v1::AskRequest& request, Done<v1::AskReply> done) override;
  void tell(const v1::TellRequest& request, Done<v1::StudyTrial> done) override;
  void report(const v1::ReportRequest& request, Done<v1::ReportReply> done) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador
