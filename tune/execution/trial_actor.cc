#include "tune/execution/trial_actor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "runtime/actor/self.h"
#include "runtime/clock.h"
#include "runtime/files/directory_archive.h"
#include "runtime/files/durable_file.h"
#include "runtime/log.h"
#include "tune/execution/trainable_registry.h"
#include "tune/refusal.h"
#include "tune/schedulers/resource_allocation.h"

namespace volador::tune {
namespace {

Resources asked_resources(const std::map<std::string, int64_t>& amounts) {
  ResourceSet set;
  for (const auto& [name, amount] : amounts) set.set(name, amount);
  return as_asked(set);
}

namespace fs = std::filesystem;

[[noreturn]] void fail(ErrorCode code, std::string message) { throw Exception(Error{code, std::move(message)}); }

Bytes read_piece(const fs::path& archive, int64_t offset, int64_t size) {
  const FileHandle file = unwrap(FileHandle::open(archive, O_RDONLY));
  if (::lseek(file.get(), offset, SEEK_SET) != offset) throw Exception(file_error("read", archive, errno));
  Bytes bytes;
  bytes.data.resize(static_cast<size_t>(std::clamp<int64_t>(size, 0, kArchiveChunkBytes)));
  bytes.data.resize(unwrap(read_some(file.get(), bytes.data.data(), bytes.data.size(), archive)));
  return bytes;
}

std::string hostname() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

bool is_checksum(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

namespace {

Result<void> read_exactly(int file, char* to, size_t size, const fs::path& path) {
  auto count = read_some(file, to, size, path);
  if (!count) return make_error(count.error());
  if (*count == size) return {};
  return make_error(ErrorCode::kUnavailable, fmt::format("{}: it became shorter while it was read", path.string()));
}

// Puts the next bytes of a file into the object store.
Result<AnyRef> put_next(ObjectStore& store, int file, size_t size, const fs::path& path) {
  auto draft = store.create(size);
  if (!draft) return make_error(draft.error());
  VOLADOR_TRY(read_exactly(file, reinterpret_cast<char*>((*draft)->space().data()), size, path));
  auto sealed = store.seal(std::move(*draft), {"checkpoint", ""});
  if (!sealed) return make_error(sealed.error());
  return AnyRef(std::move(*sealed));
}

// Stores the next bytes inside the reference.
Result<AnyRef> next_inside(int file, size_t size, const fs::path& path) {
  std::string bytes(size, '\0');
  VOLADOR_TRY(read_exactly(file, bytes.data(), size, path));
  return AnyRef(std::make_shared<const std::string>(std::move(bytes)));
}

}  // namespace

Result<std::vector<AnyRef>> put_pieces(const fs::path& path, int64_t offset, int64_t bytes, size_t most) {
  const auto store = Session::has_current() ? Session::current()->objects() : nullptr;
  if (!store) return make_error(ErrorCode::kUnavailable, "this process has no object store");
  auto file = FileHandle::open(path, O_RDONLY);
  if (!file) return make_error(file.error());
  if (::lseek(file->get(), offset, SEEK_SET) != offset) return make_error(file_error("read", path, errno));
  std::vector<AnyRef> pieces;
  while (offset < bytes && pieces.size() < most) {
    const auto size = static_cast<size_t>(std::min(bytes - offset, kStoredPieceBytes));
    auto piece =
        size > kInlineObjectBytesMax ? put_next(*store, file->get(), size, path) : next_inside(file->get(), size, path);
    if (!piece) return make_error(piece.error());
    pieces.push_back(std::move(*piece));
    offset += kStoredPieceBytes;
  }
  return pieces;
}

TrialActor::TrialActor(TrialSpec spec) : spec_(std::move(spec)) {
  auto made = TrainableRegistry::instance().make(spec_.trainable, spec_.parameters.data);
  trainable_ = unwrap(std::move(made));
  context_ = context_of(spec_);
}

TrialContext TrialActor::context_of(const TrialSpec& spec) {
  // A path only; the caller creates the folder.
  const bool in_actor = is_inside_actor() && !self().scratch.empty();
  artifacts_ =
      std::make_unique<ArtifactFolder>((in_actor ? self().scratch : scratch()) / "artifacts", spec.artifact_bytes_max);
  collected_number_ = 0;
  return {.trial_id = spec.trial_id,
          .trial_name = spec.trial_name.empty() ? spec.trial_id : spec.trial_name,
          .experiment = spec.experiment,
          .attempt = spec.attempt,
          .group = spec.group,
          .artifacts = artifacts_->path(),
          .resources = asked_resources(spec.resources)};
}

TrialActor::~TrialActor() {
  try {
    trainable_->cleanup();
  } catch (...) {
    // The trial has ended; exceptions of its cleanup are ignored.
  }
  trainable_.reset();
  if (owns_scratch_) {
    std::error_code ignored;
    fs::remove_all(scratch_, ignored);
  }
}

const fs::path& TrialActor::scratch() {
  if (!scratch_.empty()) return scratch_;
  if (is_inside_actor() && !self().scratch.empty()) {
    scratch_ = self().scratch_directory();
  } else {
    std::string name = (fs::temp_directory_path() / "volador-trial-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Exception(file_error("make", name, errno));
    scratch_ = name;
    owns_scratch_ = true;
  }
  return scratch_;
}

bool TrialActor::reuse(TrialSpec spec, Config config) {
  if (spec.trial_id == spec_.trial_id && spec.attempt == spec_.attempt) return true;  // Repeated call.
  spec_ = std::move(spec);
  artifacts_->clear();
  context_ = context_of(spec_);
  if (!trainable_->reset(config, context_)) return false;
  ready_.reset();
  last_.reset();
  step_ = 0;
  saved_step_ = -1;
  std::error_code ignored;
  fs::remove_all(scratch() / "checkpoint", ignored);
  fs::remove_all(scratch() / "restore", ignored);
  forget_restored();
  return true;
}

PiecesTaken TrialActor::restore_pieces(std::string sha256, int64_t offset, std::vector<AnyRef> pieces) {
  if (!is_checksum(sha256))
    fail(ErrorCode::kInternal,
         fmt::format("trial {}: a part of its checkpoint came as \"{}\"", spec_.trial_id, sha256));
  const fs::path path = restored(sha256);
  std::error_code code;
  fs::create_directories(path.parent_path(), code);
  const FileHandle file = unwrap(FileHandle::open(path, O_WRONLY | O_CREAT | O_APPEND, 0600));
  PiecesTaken taken{.bytes = static_cast<int64_t>(fs::file_size(path)), .lost = {}};
  for (const AnyRef& piece : pieces) {
    if (offset > taken.bytes) {
      fail(ErrorCode::kInternal, fmt::format("trial {}: a piece of its checkpoint at {} came where {} was due",
                                             spec_.trial_id, offset, taken.bytes));
    }
    const auto bytes = piece.bytes();
    if (!bytes) {
      taken.lost = bytes.error().message;
      return taken;
    }
    const auto size = static_cast<int64_t>(bytes->view.size());
    // Bytes that an interrupted call wrote are already present.
    const int64_t there = std::min(taken.bytes - offset, size);
    unwrap(write_all(file.get(), bytes->text().substr(static_cast<size_t>(there)), path));
    offset += size;
    taken.bytes = std::max(taken.bytes, offset);
    if (!piece.is_stored() || restored_bytes_ + size > kKeptPartBytes) continue;
    restored_from_.push_back(piece);
    restored_bytes_ += size;
  }
  return taken;
}

void TrialActor::forget_restored() {
  restored_from_.clear();
  restored_bytes_ = 0;
}

fs::path TrialActor::restored(const std::string& sha256) { return scratch() / "restore" / (sha256 + ".vla"); }

// Unpacks into `directory`; returns an error message, empty on success.
std::string TrialActor::unpack(const std::vector<DirectoryPart>& parts, const fs::path& directory) {
  std::vector<fs::path> archives;
  for (const DirectoryPart& part : parts) archives.push_back(restored(part.sha256));
  const auto unpacked = unpack_archives(archives, directory, {}, Durability::kProcess);
  std::error_code ignored;
  fs::remove_all(scratch() / "restore", ignored);
  if (!unpacked) return unpacked.error().message;
  for (size_t at = 0; at < parts.size(); ++at) {
    if ((*unpacked)[at].sha256 != parts[at].sha256)
      return fmt::format("its checksum is {}, not {}", (*unpacked)[at].sha256, parts[at].sha256);
  }
  return {};
}

TrialReady TrialActor::setup(TrialSetup setup) {
  if (ready_) return *ready_;
  TrialReady ready{.hostname = hostname(),
                   .node = is_inside_actor() ? self().node_name : std::string(),
                   .pid = static_cast<int32_t>(getpid())};
  if (!setup.parts.empty()) {
    const fs::path directory = scratch() / "checkpoint";
    ready.restore_error = unpack(setup.parts, directory);
    if (!ready.restore_error.empty()) return ready;
    context_.checkpoint.emplace(directory, setup.step);
  }
  step_ = setup.step;
  trainable_->setup(setup.config, context_);
  ready_ = ready;
  return ready;
}

StepReply TrialActor::step(int64_t step) {
  if (last_ && last_->step == step) return *last_;
  if (!ready_ || step != step_ + 1) {
    fail(ErrorCode::kInternal,
         fmt::format("trial {}: step {} was asked for after step {}", spec_.trial_id, step, step_));
  }
  last_ = run_step(step);
  if (!last_->finished) step_ = step;
  return *last_;
}

StepReply TrialActor::run_step(int64_t step) {
  const SystemClock clock;
  const BootTime begun = clock.now();
  StepOutcome outcome = trainable_->step();
  StepReply reply{.step = step, .finished = outcome.finished, .metrics = std::move(outcome.metrics)};
  reply.duration = clock.now() - begun;
  const auto done = reply.metrics.get("done");
  reply.done = done && *done != 0;
  reply.media = std::move(outcome.media);
  reply.tags = std::move(outcome.tags);
  reply.has_artifacts = artifacts_->is_used();
  return reply;
}

SaveReply TrialActor::save(int64_t step) {
  if (saved_step_ == step) return saved_;
  if (step != step_)
    fail(ErrorCode::kInternal,
         fmt::format("trial {}: a checkpoint of step {} was asked for after step {}", spec_.trial_id, step, step_));
  const fs::path directory = scratch() / "save";
  std::error_code code;
  fs::remove_all(directory, code);
  fs::create_directory(directory, code);
  if (code) throw Exception(file_error("make", directory, code.value()));
  forget_restored();
  SaveReply reply;
  reply.nothing = !trainable_->save(directory);
  if (!reply.nothing) {
    if (!packer_) packer_ = std::make_unique<DirectoryPacker>(scratch() / "parts");
    const auto packed = packer_->pack(directory);
    if (packed) {
      reply.parts = *packed;
    } else {
      reply.error = packed.error().message;
    }
  }
  fs::remove_all(directory, code);
  saved_ = reply;
  saved_step_ = step;
  return reply;
}

PartPieces TrialActor::read_part(std::string sha256, int64_t offset, bool by_store) {
  const auto of_last = std::ranges::find(saved_.parts, sha256, &DirectoryPart::sha256);
  if (packer_ == nullptr || of_last == saved_.parts.end()) {
    fail(ErrorCode::kInternal, fmt::format("trial {}: a part {} was asked for that its last checkpoint does not have",
                                           spec_.trial_id, sha256));
  }
  const fs::path archive = packer_->archive(sha256);
  PartPieces read;
  if (by_store) {
    auto stored = put_pieces(archive, offset, of_last->bytes, kStoredPieces);
    if (stored) return {.pieces = std::move(*stored), .stored = true};
    log::info("tune", "no object store takes a checkpoint, it travels inside calls",
              {{"error", stored.error().message}});
  }
  Bytes bytes = read_piece(archive, offset, kArchiveChunkBytes);
  if (!bytes.data.empty()) read.pieces.emplace_back(std::make_shared<const std::string>(std::move(bytes.data)));
  return read;
}

ArtifactReply TrialActor::collect_artifacts(int64_t number) {
  if (number == collected_number_) return collected_;
  const auto packed = artifacts_->pack_changed(scratch() / "artifacts.vla");
  collected_ = {};
  if (!packed) {
    collected_.error = packed.error().message;
  } else if (*packed) {
    collected_ = {
        .files = (*packed)->files, .error = {}, .sha256 = (*packed)->sha256, .archive_bytes = (*packed)->archive_bytes};
  }
  collected_number_ = number;
  return collected_;
}

Bytes TrialActor::read_artifacts(int64_t offset, int64_t size) {
  return read_piece(scratch() / "artifacts.vla", offset, size);
}

}  // namespace volador::tune
