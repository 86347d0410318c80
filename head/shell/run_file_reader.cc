#include "head/shell/run_file_reader.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "head/kernel/core.h"
#include "head/shell/core_runner.h"

namespace volador::head {
namespace {

using Reader = RunFilesPlace::Reader;

// The reply to a request, and its sender.
struct Answered {
  Reader reader;
  protocol::RunFilesAnswer answer;
};

// State of one request; confined to the loop.
struct Asking {
  CoreRunner& runner;
  protocol::ReadRunFiles question;
  std::vector<Reader> readers;
  std::function<void(Result<Answered>)> done;
  size_t next = 0;
};

// Another process on that machine, or of another user, may succeed.
bool may_differ_elsewhere(ErrorCode code) {
  return code == ErrorCode::kPermissionDenied || code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout;
}

Error in_words(const Reader& reader, const protocol::ReadRunFiles& question, const Error& error) {
  std::string message = fmt::format("{}: {}", reader.who, error.message);
  if (error.code == ErrorCode::kPermissionDenied) {
    message += fmt::format(
        "; it runs as another user than the program did: start a node on that machine as that user, or copy the files "
        "from {} there",
        question.directory());
  }
  return {error.code, std::move(message)};
}

void ask_next(const std::shared_ptr<Asking>& asking) {
  const Reader reader = asking->readers[asking->next++];
  asking->runner.read_run_files(
      reader.session, asking->question, [asking, reader](Result<protocol::RunFilesAnswer> answer) {
        if (answer) return asking->done(Answered{reader, std::move(*answer)});
        if (asking->next < asking->readers.size() && may_differ_elsewhere(answer.error().code)) return ask_next(asking);
        asking->done(make_error(in_words(reader, asking->question, answer.error())));
      });
}

void ask_readers(CoreRunner& runner, const std::string& experiment, protocol::ReadRunFiles question,
                 std::function<void(Result<Answered>)> done) {
  runner.ask(
      [&runner, experiment, question = std::move(question), done = std::move(done)](const HeadCore& core, BootTime) {
        auto place = core.lookups().find_run_files(experiment);
        if (!place) return done(make_error(place.error()));
        const auto asking = std::make_shared<Asking>(
            Asking{.runner = runner, .question = question, .readers = std::move(place->readers), .done = done});
        asking->question.set_directory(place->directory);
        ask_next(asking);
      });
}

// One request per piece: a slow reader has only one piece in transit.
class PiecesFromThere final : public LaterPieces {
 public:
  PiecesFromThere(CoreRunner& runner, Reader reader, protocol::RunFilesAnswer begin)
      : runner_(runner),
        reader_(std::move(reader)),
        transfer_(begin.transfer()),
        first_(std::move(*begin.mutable_piece())),
        ended_(std::make_shared<std::atomic<bool>>(begin.last())) {}
  ~PiecesFromThere() override {
    if (!*ended_) runner_.end_run_file(reader_.session, transfer_);
  }

  void next(Done done) override {
    if (first_) return done(*std::exchange(first_, std::nullopt));
    if (*ended_) return done(std::string());
    protocol::ReadRunFiles question;
    question.set_transfer(transfer_);
    runner_.read_run_files(
        reader_.session, std::move(question),
        [ended = ended_, who = reader_.who, done = std::move(done)](Result<protocol::RunFilesAnswer> answer) {
          if (!answer) {
            *ended = true;
            return done(make_error(answer.error().code, fmt::format("{}: {}", who, answer.error().message)));
          }
          *ended = answer->last();
          done(std::move(*answer->mutable_piece()));
        });
  }

 private:
  CoreRunner& runner_;
  const Reader reader_;
  const uint64_t transfer_;
  std::optional<std::string> first_;
  const std::shared_ptr<std::atomic<bool>> ended_;  // A reply may arrive after this object is destroyed.
};

}  // namespace

void list_run_files(CoreRunner& runner, std::string experiment, std::string trial,
                    std::function<void(Result<std::vector<RunFiles::Entry>>)> done) {
  protocol::ReadRunFiles question;
  question.set_trial(std::move(trial));
  ask_readers(runner, experiment, std::move(question), [done = std::move(done)](const Result<Answered>& answered) {
    if (!answered) return done(make_error(answered.error()));
    std::vector<RunFiles::Entry> entries;
    for (const auto& one : answered->answer.entries()) {
      entries.push_back(
          {.name = one.name(), .kind = one.kind(), .bytes = one.bytes(), .modified_ms = one.modified_ms()});
    }
    done(std::move(entries));
  });
}

void open_run_file(CoreRunner& runner, std::string experiment, std::string trial, std::string name,
                   std::function<void(Result<RemoteFile>)> done) {
  if (name.empty()) return done(make_error(ErrorCode::kInvalidArgument, "\"\" is no name of a file here"));
  protocol::ReadRunFiles question;
  question.set_trial(std::move(trial));
  question.set_name(std::move(name));
  ask_readers(runner, experiment, std::move(question), [&runner, done = std::move(done)](Result<Answered> answered) {
    if (!answered) return done(make_error(answered.error()));
    protocol::RunFilesAnswer& begin = answered->answer;
    RemoteFile file{.file_name = begin.file_name(),
                    .content_type = begin.content_type(),
                    .length = std::nullopt,
                    .pieces = nullptr};
    if (begin.has_length()) file.length = static_cast<uint64_t>(begin.length());
    file.pieces = std::make_shared<PiecesFromThere>(runner, std::move(answered->reader), std::move(begin));
    done(std::move(file));
  });
}

}  // namespace volador::head
