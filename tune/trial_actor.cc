#include "tune/trial_actor.h"

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
#include "tune/refusal.h"
#include "tune/resource_allocation.h"
#include "tune/trainable_registry.h"

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

}  // namespace

TrialActor::TrialActor(TrialSpec spec) : spec_(std::move(spec)) {
  auto made = TrainableRegistry::instance().make(spec_.trainable, spec_.parameters.data);
  trainable_ = unwrap(std::move(made));
  context_ = context_of(spec_);
}

TrialContext TrialActor::context_of(const TrialSpec& spec) {
  // A path: the folder is made by who asks for it.
  const bool in_actor = is_inside_actor() && !self().scratch.empty();
  artifacts_ = std::make_unique<ArtifactFolder>((in_actor ? self().scratch : scratch()) / "artifacts", spec.artifact_bytes_max);
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
    // The trial has ended; what its cleanup throws changes nothing.
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
  if (spec.trial_id == spec_.trial_id && spec.attempt == spec_.attempt) return true;  // Repeated.
  spec_ = std::move(spec);
  artifacts_->clear();
  context_ = context_of(spec_);
  if (!trainable_->reset(config, context_)) return false;
  ready_.reset();
  last_.reset();
  step_ = restore_bytes_ = 0;
  saved_step_ = -1;
  std::error_code ignored;
  fs::remove_all(scratch() / "checkpoint", ignored);
  return true;
}

int64_t TrialActor::restore_chunk(int64_t offset, Bytes bytes) {
  if (offset < restore_bytes_) return restore_bytes_;
  if (offset > restore_bytes_) {
    fail(ErrorCode::kInternal, fmt::format("trial {}: a piece of its checkpoint at {} came where {} was due", spec_.trial_id, offset, restore_bytes_));
  }
  const fs::path path = scratch() / "restore.vla";
  const FileHandle file = unwrap(FileHandle::open(path, O_WRONLY | O_CREAT | O_APPEND, 0600));
  (void)!::ftruncate(file.get(), restore_bytes_);
  unwrap(write_all(file.get(), bytes.data, path));
  restore_bytes_ += static_cast<int64_t>(bytes.data.size());
  return restore_bytes_;
}

TrialReady TrialActor::setup(TrialSetup setup) {
  if (ready_) return *ready_;
  TrialReady ready{.hostname = hostname(), .pid = static_cast<int32_t>(getpid())};
  if (!setup.archive_sha256.empty()) {
    const fs::path archive = scratch() / "restore.vla";
    const fs::path directory = scratch() / "checkpoint";
    auto unpacked = unpack_archive(archive, directory, {}, Durability::kProcess);
    if (unpacked && unpacked->sha256 != setup.archive_sha256) {
      unpacked = make_error(ErrorCode::kInvalidArgument, fmt::format("its checksum is {}, not {}", unpacked->sha256, setup.archive_sha256));
    }
    std::error_code ignored;
    fs::remove(archive, ignored);
    if (!unpacked) {
      ready.restore_error = unpacked.error().message;
      return ready;
    }
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
    fail(ErrorCode::kInternal, fmt::format("trial {}: step {} was asked for after step {}", spec_.trial_id, step, step_));
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
  if (step != step_) fail(ErrorCode::kInternal, fmt::format("trial {}: a checkpoint of step {} was asked for after step {}", spec_.trial_id, step, step_));
  const fs::path directory = scratch() / "save";
  const fs::path archive = scratch() / "save.vla";
  std::error_code code;
  fs::remove_all(directory, code);
  fs::create_directory(directory, code);
  if (code) throw Exception(file_error("make", directory, code.value()));
  SaveReply reply;
  reply.nothing = !trainable_->save(directory);
  if (!reply.nothing) {
    auto packed = pack_directory(directory, archive, {}, Durability::kProcess);
    if (packed) {
      reply.sha256 = packed->sha256;
      reply.archive_bytes = packed->archive_bytes;
    } else {
      reply.error = packed.error().message;
    }
  }
  fs::remove_all(directory, code);
  saved_ = reply;
  saved_step_ = step;
  return reply;
}

Bytes TrialActor::read_chunk(int64_t offset, int64_t size) { return read_piece(scratch() / "save.vla", offset, size); }

ArtifactReply TrialActor::collect_artifacts(int64_t number) {
  if (number == collected_number_) return collected_;
  const auto packed = artifacts_->pack_changed(scratch() / "artifacts.vla");
  collected_ = {};
  if (!packed) {
    collected_.error = packed.error().message;
  } else if (*packed) {
    collected_ = {.files = (*packed)->files, .error = {}, .sha256 = (*packed)->sha256, .archive_bytes = (*packed)->archive_bytes};
  }
  collected_number_ = number;
  return collected_;
}

Bytes TrialActor::read_artifacts(int64_t offset, int64_t size) { return read_piece(scratch() / "artifacts.vla", offset, size); }

}  // namespace volador::tune
