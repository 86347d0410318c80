// Registry of a head's shared studies: takes API requests, returns replies and rows to store. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "head/journal/journal.h"
#include "runtime/protocol/volador/v1/studies.pb.h"
#include "tune/study/shared_study.h"
#include "volador/roles/study_server.h"

namespace volador {

class StudyRegistry {
 public:
  explicit StudyRegistry(const StudyServerLimits& limits) : limits_(limits) {}

  // Loads one row of the store; call open() after all rows, which replays the events. An unreadable study is skipped,
  // and its requests fail with the reason.
  void load(std::string_view table, std::string_view key, std::string_view value);
  void open(int64_t now_ms);

  [[nodiscard]] Result<v1::Study> create(const v1::CreateStudyRequest& request, int64_t now_ms);
  [[nodiscard]] Result<v1::Study> get(const v1::GetStudyRequest& request) const;
  v1::ListStudiesReply list() const;
  [[nodiscard]] Result<v1::DeleteStudyReply> remove(const v1::DeleteStudyRequest& request, int64_t now_ms);
  [[nodiscard]] Result<v1::ListStudyTrialsReply> trials(const v1::ListStudyTrialsRequest& request) const;
  [[nodiscard]] Result<v1::AskReply> ask(const v1::AskRequest& request, int64_t now_ms);
  [[nodiscard]] Result<v1::StudyTrial> tell(const v1::TellRequest& request, int64_t now_ms);
  [[nodiscard]] Result<v1::ReportReply> report(const v1::ReportRequest& request, int64_t now_ms);

  void end_leases(int64_t now_ms);
  std::optional<int64_t> deadline_ms() const;

  // Returns the changes since the last call; store them before sending the replies.
  std::vector<head::Mutation> take_mutations();
  // The serialized state of a study, for tests.
  std::string snapshot_of(const std::string& name) const { return studies_.at(name).study.snapshot(); }

 private:
  struct Held {
    tune::SharedStudy study;
    std::string request;           // Request id of its creation.
    uint64_t first = 0, next = 0;  // Numbers of the stored events.
  };
  struct Stored {  // Rows of a study while the store is read.
    std::string definition, state;
    std::map<uint64_t, std::string> events;
  };
  struct Deletion {
    std::string study;
    int64_t at_ms = 0;
  };

  Result<Held*> find(const std::string& name);
  Result<const Held*> find(const std::string& name) const;
  Result<Held> restored(const Stored& stored) const;

  const StudyServerLimits limits_;
  std::map<std::string, Held> studies_;
  std::map<std::string, Error> unreadable_;
  std::map<std::string, Deletion> deletions_;  // By request id.
  std::map<std::string, Stored> stored_;
  std::set<std::string> changed_;
  std::vector<head::Mutation> mutations_;
};

}  // namespace volador
