#include "tune/results/experiment_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <concepts>

#include "runtime/crc32c.h"
#include "runtime/quantities.h"
#include "tune/refusal.h"

namespace volador::tune {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "VLJRNL01";
constexpr size_t kFrameBytes = 8;
constexpr size_t kPendingBytesMax = size_t{64} << 20;
constexpr std::chrono::seconds kSyncInterval{1};
constexpr int kLockTries = 10;  // is_driven() of another process holds the lock briefly.
constexpr std::chrono::milliseconds kLockPause{20};

// The members of each event, for both reading and writing.
auto fields(auto& e) requires requires { e.duration; }
{ return std::tie(e.attempt, e.step, e.metrics, e.duration, e.done); }
auto fields(auto& e) requires requires { e.counts; }
{ return std::tie(e.attempt, e.error, e.counts); }
auto fields(auto& e) requires(requires {
  e.step;
  e.location;
}) {
  return std::tie(e.attempt, e.step, e.location);
}
auto fields(auto& e) requires(requires {
  e.step;
  e.error;
}) {
  return std::tie(e.attempt, e.step, e.error);
}
auto fields(auto& e) requires(requires { e.node; }) { return std::tie(e.attempt, e.node); }
auto fields(auto& e) requires(requires {
  e.reason;
  e.attempt;
}) {
  return std::tie(e.attempt, e.reason);
}
auto fields(auto& e) requires(
    requires { e.location; } && !requires { e.step; }) {
  return std::tie(e.location);
}
auto fields(auto& e) requires requires { e.slots; }
{ return std::tie(e.slots); }
auto fields(auto& e) requires requires { e.total; }
{ return std::tie(e.total); }
auto fields(auto& e) requires requires { e.amounts; }
{ return std::tie(e.amounts); }
auto fields(auto& e) requires requires { e.request; }
{ return std::tie(e.request, e.config); }
auto fields(auto& e) requires requires { e.tags; }
{ return std::tie(e.tags); }
auto fields(auto& e) requires requires { e.from_start; }
{ return std::tie(e.from_start); }
auto fields(auto& e) requires requires { e.whole; }
{ return std::tie(e.whole); }
auto fields(auto& e) requires(requires { e.error.message; }) { return std::tie(e.error.code, e.error.message); }
auto fields(auto& e) requires(std::is_empty_v<std::remove_cvref_t<decltype(e)>>) { return std::tie(); }
template <class T>
constexpr bool kAttemptOnly =
    std::is_same_v<std::remove_cvref_t<T>, TrialFinished> || std::is_same_v<std::remove_cvref_t<T>, TrialGone>;
auto fields(auto& e) requires kAttemptOnly<decltype(e)> { return std::tie(e.attempt); }

// Returns the reason in a record, if any. It is a text among the members and once more structured data at the end,
// which records of an earlier Volador lack.
template <class T>
auto* reason_in(T& one) {
  if constexpr (requires { requires std::same_as<decltype(T::error), Reason>; })
    return &one.error;
  else if constexpr (requires { requires std::same_as<decltype(T::reason), Reason>; })
    return &one.reason;
  else
    return static_cast<Reason*>(nullptr);
}

// The trial that an added configuration comes from is appended in the same way.
void encode_origin(Encoder& encoder, const ConfigAdded& added) {
  if (added.cloned_from) encode(encoder, added.cloned_from->value());
}

void decode_origin(Decoder& decoder, ConfigAdded& added) {
  if (decoder.failed() || decoder.at_end()) return;
  uint32_t trial = 0;
  decode(decoder, trial);
  added.cloned_from = TrialId(trial);
}

void encode_data(Encoder& encoder, const Reason& reason) {
  if (const std::string why = reason.to_json(); !why.empty()) encode(encoder, why);
}

void decode_data(Decoder& decoder, Reason& reason) {
  if (decoder.failed() || decoder.at_end()) return;
  std::string why;
  decode(decoder, why);
  if (auto known = Reason::from_json(why)) reason = std::move(*known);
}

template <class T>
void encode_member(Encoder& encoder, const T& member) {
  if constexpr (std::is_same_v<T, Reason>)
    encode(encoder, member.text());
  else
    encode(encoder, member);
}

template <class T>
void decode_member(Decoder& decoder, T& member) {
  if constexpr (std::is_same_v<T, Reason>) {
    std::string text;
    decode(decoder, text);
    member = Reason(std::move(text));
  } else {
    decode(decoder, member);
  }
}

void encode_event(Encoder& encoder, const Event& event) {
  encode(encoder, static_cast<uint32_t>(event.index()));
  std::visit(
      [&](const auto& one) {
        if constexpr (requires { one.trial; }) encode(encoder, one.trial.value());
        std::apply([&](const auto&... parts) { (encode_member(encoder, parts), ...); }, fields(one));
        if (const Reason* reason = reason_in(one)) encode_data(encoder, *reason);
        if constexpr (requires { one.cloned_from; }) encode_origin(encoder, one);
      },
      event);
}

template <size_t I = 0>
void decode_event(Decoder& decoder, uint32_t index, Event& event) {
  if constexpr (I < std::variant_size_v<Event>) {
    if (index != I) return decode_event<I + 1>(decoder, index, event);
    auto& one = event.emplace<I>();
    if constexpr (requires { one.trial; }) {
      uint32_t trial = 0;
      decode(decoder, trial);
      one.trial = TrialId(trial);
    }
    std::apply([&](auto&... parts) { (decode_member(decoder, parts), ...); }, fields(one));
    if (Reason* reason = reason_in(one)) decode_data(decoder, *reason);
    if constexpr (requires { one.cloned_from; }) decode_origin(decoder, one);
  } else {
    decoder.fail("a known event");
  }
}

}  // namespace

void volador_encode(Encoder& encoder, const JournalEvent& event) {
  encode(encoder, event.at);
  encode(encoder, event.wall);
  encode_event(encoder, event.event);
}

void volador_decode(Decoder& decoder, JournalEvent& event) {
  decode(decoder, event.at);
  decode(decoder, event.wall);
  uint32_t index = 0;
  decode(decoder, index);
  if (!decoder.failed()) decode_event(decoder, index, event.event);
}

namespace {

// The members of a decision, for both reading and writing; ids and the act as numbers.
auto decision_fields(auto& one) {
  return std::tie(one.event, one.record.step, one.record.rule, one.record.bracket, one.record.milestone,
                  one.record.value, one.record.rank, one.record.of, one.record.pass, one.record.cutoff,
                  one.record.detail);
}

}  // namespace

void volador_encode(Encoder& encoder, const JournalDecision& decision) {
  encode(encoder, decision.record.trial.value());
  encode(encoder, static_cast<uint32_t>(decision.record.act));
  encode(encoder, decision.record.other.value());
  std::apply([&](const auto&... parts) { (encode_member(encoder, parts), ...); }, decision_fields(decision));
  encode_data(encoder, decision.record.detail);
}

void volador_decode(Decoder& decoder, JournalDecision& decision) {
  uint32_t trial = 0, act = 0, other = 0;
  decode(decoder, trial);
  decode(decoder, act);
  decode(decoder, other);
  if (act > static_cast<uint32_t>(Act::kResized)) return decoder.fail("a known act");
  decision.record.trial = TrialId(trial);
  decision.record.act = static_cast<Act>(act);
  decision.record.other = TrialId(other);
  std::apply([&](auto&... parts) { (decode_member(decoder, parts), ...); }, decision_fields(decision));
  decode_data(decoder, decision.record.detail);
}

namespace {

template <size_t I = 0>
Result<JournalRecord> decode_record(size_t kind, std::string_view bytes) {
  if constexpr (I < std::variant_size_v<JournalRecord>) {
    if (kind != I) return decode_record<I + 1>(kind, bytes);
    auto record = from_bytes<std::variant_alternative_t<I, JournalRecord>>(bytes);
    if (!record) return make_error(record.error());
    return JournalRecord(std::move(*record));
  } else {
    return refuse(fmt::format("unknown kind {}", kind));
  }
}

uint32_t read_fixed(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

void append_fixed(std::string& out, uint32_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
}

uint32_t checksum(std::string_view length, std::string_view contents) {
  std::string both(length);
  both += contents;
  return crc32c(both);
}

}  // namespace

void append_journal_record(std::string& out, const JournalRecord& record) {
  std::string contents(1, static_cast<char>(record.index()));
  std::visit([&](const auto& one) { contents += to_bytes(one); }, record);
  std::string length;
  append_fixed(length, static_cast<uint32_t>(contents.size()));
  out += length;
  append_fixed(out, checksum(length, contents));
  out += contents;
}

Result<JournalContents> parse_journal(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return refuse("it is no journal of an experiment, or one of another version");
  JournalContents contents;
  size_t at = kMagic.size();
  bool first = true;
  const auto cut = [&](size_t from) {
    contents.torn = fmt::format("its last record, of which {} written from byte {} on, is cut",
                                counted(bytes.size() - from, "byte was", "bytes were"), from);
  };
  while (at < bytes.size()) {
    const std::string_view rest = bytes.substr(at);
    if (rest.size() < kFrameBytes || read_fixed(rest) > rest.size() - kFrameBytes) {
      cut(at);
      break;
    }
    const size_t length = read_fixed(rest);
    const std::string_view record = rest.substr(kFrameBytes, length);
    const bool last = kFrameBytes + length == rest.size();
    const bool sound = length > 0 && checksum(rest.substr(0, 4), record) == read_fixed(rest.substr(4));
    if (!sound && (last || rest.find_first_not_of('\0') == std::string_view::npos)) {
      cut(at);
      break;
    }
    if (!sound) return refuse(fmt::format("it is damaged at byte {}, and more follows", at));
    auto decoded = decode_record(static_cast<uint8_t>(record.front()), record.substr(1));
    if (!decoded) return refuse(fmt::format("the record at byte {} cannot be read: {}", at, decoded.error().message));
    auto* header = std::get_if<JournalHeader>(&*decoded);
    if (first != (header != nullptr)) return refuse(fmt::format("the record at byte {} is out of place", at));
    if (header != nullptr) {
      if (header->version < 1 || header->version > kJournalVersion)
        return refuse(
            fmt::format("version {} is not known, this Volador reads 1 to {}", header->version, kJournalVersion));
      contents.header = std::move(*header);
    } else {
      contents.records.push_back(std::move(*decoded));
    }
    first = false;
    at += kFrameBytes + length;
  }
  if (first) return refuse("it ends before its first record: nothing had begun");
  contents.whole_bytes = at;
  return contents;
}

namespace {

// Returns false if another process holds the lock. File systems without locks count as free.
bool lock(int file) {
  for (int tries = 1; ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++tries) {
    if (tries == kLockTries) return false;
    std::this_thread::sleep_for(kLockPause);
  }
  return true;
}

}  // namespace

fs::path journal_path(const fs::path& experiment) { return experiment / "journal.vlj"; }

Result<JournalContents> read_journal(const fs::path& experiment) {
  const auto bytes = read_file(journal_path(experiment), SIZE_MAX);
  if (!bytes) return make_error(bytes.error());
  auto contents = parse_journal(*bytes);
  if (!contents) return refuse(fmt::format("{}: {}", journal_path(experiment).string(), contents.error().message));
  return contents;
}

bool is_driven(const fs::path& experiment) {
  const auto file = FileHandle::open(journal_path(experiment), O_RDONLY);
  return file && ::flock(file->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

ExperimentJournal::ExperimentJournal(fs::path path, FileHandle file, int64_t bytes)
    : path_(std::move(path)), file_(std::move(file)), bytes_(bytes), syncer_([this] { keep_synced(); }) {}

ExperimentJournal::~ExperimentJournal() {
  commit();
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  syncer_.join();
}

Result<std::unique_ptr<ExperimentJournal>> ExperimentJournal::create(const fs::path& experiment,
                                                                     const JournalHeader& header) {
  const fs::path path = journal_path(experiment);
  auto file = FileHandle::open(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) return make_error(file.error());
  (void)lock(file->get());
  std::string bytes(kMagic);
  append_journal_record(bytes, header);
  VOLADOR_TRY(write_all(file->get(), bytes, path));
  VOLADOR_TRY(sync_file(file->get(), path));
  VOLADOR_TRY(sync_directory(experiment));
  return std::unique_ptr<ExperimentJournal>(
      new ExperimentJournal(path, std::move(*file), static_cast<int64_t>(bytes.size())));
}

Result<std::unique_ptr<ExperimentJournal>> ExperimentJournal::open(const fs::path& experiment, size_t whole_bytes) {
  const fs::path path = journal_path(experiment);
  auto file = FileHandle::open(path, O_WRONLY);
  if (!file) return make_error(file.error());
  if (!lock(file->get()))
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("{}: another program runs this experiment now; wait for its end or stop it", path.string()));
  const auto bytes = static_cast<int64_t>(whole_bytes);
  if (::ftruncate(file->get(), bytes) != 0 || ::lseek(file->get(), bytes, SEEK_SET) != bytes)
    return make_error(file_error("cut", path, errno));
  return std::unique_ptr<ExperimentJournal>(new ExperimentJournal(path, std::move(*file), bytes));
}

void ExperimentJournal::add(const JournalRecord& record) {
  if (lost_) return;
  if (pending_.size() > kPendingBytesMax) {
    lost_ = true;  // A gap would break the replay: the file stays valid up to here.
    pending_.clear();
    return;
  }
  append_journal_record(pending_, record);
}

void ExperimentJournal::commit() {
  if (pending_.empty()) return;
  if (auto written = write_all(file_.get(), pending_, path_); !written) {
    error_ = written.error();
    if (::ftruncate(file_.get(), bytes_) == 0) (void)::lseek(file_.get(), bytes_, SEEK_SET);
    return;
  }
  error_.reset();
  bytes_ += static_cast<int64_t>(pending_.size());
  pending_.clear();
  const std::lock_guard<std::mutex> hold(mutex_);
  dirty_ = true;
}

void ExperimentJournal::keep_synced() {
  std::unique_lock<std::mutex> hold(mutex_);
  while (true) {
    wake_.wait_for(hold, kSyncInterval, [this] { return stopping_; });
    const bool last = stopping_;
    if (std::exchange(dirty_, false)) {
      hold.unlock();
      (void)::fdatasync(file_.get());
      hold.lock();
    }
    if (last) return;
  }
}

}  // namespace volador::tune
