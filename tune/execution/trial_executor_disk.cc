// Transfer of checkpoints and artifacts between actors and the experiment's folder.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "runtime/files/results_mode.h"
#include "runtime/log.h"
#include "tune/execution/trial_executor_impl.h"

namespace volador::tune {
namespace {

constexpr int kPieceTries = 5;
constexpr auto kPieceTimeout = std::chrono::seconds(60);  // Data is present, but may have to be restored from disk.

// Small parts are not worth keeping.
bool is_kept(const DirectoryPart& part) {
  return part.bytes > static_cast<int64_t>(kInlineObjectBytesMax) && part.bytes <= kKeptPartBytes;
}

}  // namespace

void TrialExecutor::Impl::fail_incoming(const std::shared_ptr<IncomingCheckpoint>& incoming, const Error& error) {
  incoming->writer.reset();
  on_control([self = shared_from_this(), incoming, error] {
    self->emit(CheckpointFailed{incoming->attempt->trial, incoming->attempt->number, incoming->step, reason_of(error)});
  });
}

void TrialExecutor::Impl::open_incoming(const std::shared_ptr<IncomingCheckpoint>& incoming) {
  auto writer =
      store.begin(incoming->attempt->folder, incoming->step, static_cast<uint64_t>(incoming->attempt->number));
  if (!writer) return fail_incoming(incoming, writer.error());
  incoming->writer.emplace(std::move(*writer));
  next_part(incoming);
}

void TrialExecutor::Impl::next_part(const std::shared_ptr<IncomingCheckpoint>& incoming) {
  const std::vector<DirectoryPart>& parts = incoming->reply.parts;
  while (incoming->next < parts.size() && incoming->writer->reuse(parts[incoming->next])) ++incoming->next;
  if (incoming->next == parts.size()) return commit(incoming);
  if (auto begun = incoming->writer->begin_part(parts[incoming->next]); !begun)
    return fail_incoming(incoming, begun.error());
  incoming->received.clear();
  incoming->by_store = incoming->by_store && takes_objects();
  incoming->keeps = incoming->by_store && is_kept(parts[incoming->next]);
  ask_for_pieces(incoming);
}

void TrialExecutor::Impl::ask_for_pieces(const std::shared_ptr<IncomingCheckpoint>& incoming, nanoseconds delay) {
  const int64_t offset = incoming->writer->bytes();
  post(
      &Loops::control,
      [self = shared_from_this(), incoming, offset, by_store = incoming->by_store] {
        self->fetch(incoming, offset, by_store);
      },
      delay);
}

void TrialExecutor::Impl::append_when_there(const std::shared_ptr<IncomingCheckpoint>& incoming,
                                            const std::vector<AnyRef>& pieces, size_t index) {
  if (index == pieces.size()) return after_pieces(incoming);
  pieces[index].when_ready([weak = weak_from_this(), incoming, pieces, index] {
    const auto self = weak.lock();
    if (!self) return;
    self->on_disk([self, incoming, pieces, index] {
      if (self->append(incoming, pieces[index])) self->append_when_there(incoming, pieces, index + 1);
    });
  });
}

bool TrialExecutor::Impl::append(const std::shared_ptr<IncomingCheckpoint>& incoming, const AnyRef& piece) {
  if (!incoming->writer) return false;
  const auto bytes = piece.bytes(kPieceTimeout);
  if (!bytes) {
    fetch_again(incoming, bytes.error());
    return false;
  }
  if (auto appended = incoming->writer->append(bytes->text()); !appended) {
    fail_incoming(incoming, appended.error());
    return false;
  }
  if (incoming->keeps) incoming->received.push_back(piece);
  return true;
}

void TrialExecutor::Impl::fetch_again(const std::shared_ptr<IncomingCheckpoint>& incoming, const Error& error) {
  log::info("tune", "a checkpoint was cut off on its way and goes on",
            {{"trial", incoming->attempt->folder},
             {"step", std::to_string(incoming->step)},
             {"bytes", std::to_string(incoming->writer->bytes())},
             {"error", error.message}});
  if (++incoming->tries >= kPieceTries) incoming->by_store = incoming->keeps = false;
  ask_for_pieces(incoming, options.retry_pause);
}

void TrialExecutor::Impl::after_pieces(const std::shared_ptr<IncomingCheckpoint>& incoming) {
  const DirectoryPart& part = incoming->reply.parts[incoming->next];
  if (incoming->writer->bytes() < part.bytes) return ask_for_pieces(incoming);
  if (auto ended = incoming->writer->end_part(); !ended) return fail_incoming(incoming, ended.error());
  if (incoming->keeps) kept.add(part, std::move(incoming->received));
  ++incoming->next;
  next_part(incoming);
}

bool TrialExecutor::Impl::takes_objects() {
  if (!has_store) {
    const auto objects = session->objects();
    const auto room = objects ? objects->create(kInlineObjectBytesMax + 1)
                              : make_error(ErrorCode::kUnavailable, "this process has none");
    has_store = room.has_value();
    if (!room)
      log::info("tune", "checkpoints travel inside calls, not through object stores",
                {{"error", room.error().message}});
  }
  return *has_store;
}

void TrialExecutor::Impl::commit(const std::shared_ptr<IncomingCheckpoint>& incoming) {
  auto stored = incoming->writer->commit(options.clock->wall());
  if (!stored) return fail_incoming(incoming, stored.error());
  on_control([self = shared_from_this(), incoming] {
    // Collects artifacts along with the checkpoint, before the next step.
    if (incoming->attempt->has_artifacts && self->live(incoming->attempt)) {
      return self->collect(incoming->attempt, [self, incoming] { self->tell_saved(*incoming); });
    }
    self->tell_saved(*incoming);
  });
}

void TrialExecutor::Impl::tell_saved(const IncomingCheckpoint& incoming) {
  const std::string location = incoming.attempt->folder + "/" + checkpoint_name(incoming.step);
  emit(CheckpointSaved{incoming.attempt->trial, incoming.attempt->number, incoming.step, location});
}

void TrialExecutor::Impl::fail_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, const Error& error) {
  drop_artifacts(*incoming);
  on_control([self = shared_from_this(), incoming, error] {
    if (!self->live(incoming->attempt)) return;
    self->say_artifacts(incoming->attempt, error.message);
    incoming->then();
  });
}

void TrialExecutor::Impl::drop_artifacts(IncomingArtifacts& incoming) {
  incoming.file = FileHandle();
  std::error_code ignored;
  if (!incoming.archive.empty()) std::filesystem::remove(incoming.archive, ignored);
}

void TrialExecutor::Impl::open_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming) {
  const Attempt& attempt = *incoming->attempt;
  incoming->archive =
      options.directory / attempt.folder / fmt::format(".artifacts_{}_{}.vla", attempt.number, attempt.collections);
  if (auto made = make_results_directory(incoming->archive.parent_path()); !made) {
    return fail_artifacts(incoming, made.error());
  }
  auto file = FileHandle::open(incoming->archive, O_WRONLY | O_CREAT | O_TRUNC);
  if (!file) return fail_artifacts(incoming, file.error());
  incoming->file = std::move(*file);
  on_control([self = shared_from_this(), incoming] { self->fetch_artifacts(incoming, 0); });
}

void TrialExecutor::Impl::append_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, int64_t offset,
                                           const Bytes& bytes) {
  if (bytes.data.empty()) return fail_artifacts(incoming, {ErrorCode::kInternal, "their archive ended early"});
  if (auto written = write_all(incoming->file.get(), bytes.data, incoming->archive); !written)
    return fail_artifacts(incoming, written.error());
  on_control([self = shared_from_this(), incoming, next = offset + static_cast<int64_t>(bytes.data.size())] {
    self->fetch_artifacts(incoming, next);
  });
}

void TrialExecutor::Impl::finish_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming) {
  incoming->file = FileHandle();
  const auto added = add_artifacts(incoming->archive, incoming->reply.sha256, artifacts_of(*incoming->attempt));
  if (!added) return fail_artifacts(incoming, added.error());
  drop_artifacts(*incoming);
  on_control([self = shared_from_this(), incoming] {
    if (self->live(incoming->attempt)) incoming->then();
  });
}

void TrialExecutor::Impl::clone(TrialId trial, int64_t attempt, const std::string& folder,
                                const Checkpoint& checkpoint) {
  const int64_t step = checkpoint.step;
  auto stored = store.find(folder_in(checkpoint.location), step);
  if (stored) stored = store.clone(*stored, folder, static_cast<uint64_t>(attempt), options.clock->wall());
  on_control([self = shared_from_this(), trial, attempt, step, folder, stored = std::move(stored)] {
    if (!stored) return self->emit(CloneFailed{trial, attempt, step, reason_of(stored.error())});
    self->emit(CheckpointCloned{trial, attempt, step, folder + "/" + checkpoint_name(step)});
  });
}

void TrialExecutor::Impl::open_restore(const AttemptPtr& attempt) {
  auto stored = store.find(attempt->folder, attempt->restore->step);
  if (!stored) return fail_restore(attempt, stored.error());
  auto outgoing = std::make_shared<OutgoingCheckpoint>();
  outgoing->attempt = attempt;
  outgoing->stored = std::move(*stored);
  send_part(outgoing);
}

void TrialExecutor::Impl::fail_restore(const AttemptPtr& attempt, const Error& error) {
  on_control([self = shared_from_this(), attempt, error] {
    if (self->live(attempt)) self->lose_checkpoint(attempt, error.message);
  });
}

void TrialExecutor::Impl::send_part(const std::shared_ptr<OutgoingCheckpoint>& outgoing) {
  if (outgoing->next == outgoing->stored.parts.size()) {
    return on_control([self = shared_from_this(), outgoing] {
      if (self->live(outgoing->attempt)) self->set_up(outgoing->attempt, outgoing->stored.parts);
    });
  }
  // As received from its trial's node, perhaps from this attempt's, or as sent to another trial.
  outgoing->kept = kept.find(outgoing->stored.parts[outgoing->next].sha256);
  send_pieces(outgoing, 0);
}

void TrialExecutor::Impl::send_pieces(const std::shared_ptr<OutgoingCheckpoint>& outgoing, int64_t offset) {
  auto pieces = pieces_from(*outgoing, offset);
  if (!pieces) return fail_restore(outgoing->attempt, pieces.error());
  on_control([self = shared_from_this(), outgoing, offset, pieces = std::move(*pieces)] {
    const AttemptPtr& target = outgoing->attempt;
    if (!self->live(target)) return;
    const std::string& sha256 = outgoing->stored.parts[outgoing->next].sha256;
    // `pieces` keeps the objects alive until they have arrived.
    self->call<&TrialActor::restore_pieces>(
        target, nanoseconds(0), to_bytes(sha256, offset, pieces),
        [self = self.get(), outgoing, pieces](PiecesTaken taken) {
          self->on_disk([again = self->shared_from_this(), outgoing, taken = std::move(taken)] {
            again->after_sending(outgoing, taken);
          });
        });
  });
}

void TrialExecutor::Impl::after_sending(const std::shared_ptr<OutgoingCheckpoint>& outgoing, const PiecesTaken& taken) {
  const DirectoryPart& part = outgoing->stored.parts[outgoing->next];
  if (!taken.lost.empty()) {
    log::info("tune", "a piece of a checkpoint was lost on its way to its trial and is sent again",
              {{"trial", outgoing->attempt->folder}, {"bytes", std::to_string(taken.bytes)}, {"error", taken.lost}});
    kept.drop(part.sha256);
    outgoing->kept.reset();
    if (++outgoing->tries >= kPieceTries) outgoing->by_store = false;
  }
  if (taken.bytes < part.bytes) return send_pieces(outgoing, taken.bytes);
  ++outgoing->next;
  send_part(outgoing);
}

Result<std::vector<AnyRef>> TrialExecutor::Impl::pieces_from(OutgoingCheckpoint& outgoing, int64_t offset) {
  const DirectoryPart& part = outgoing.stored.parts[outgoing.next];
  const std::filesystem::path archive = outgoing.stored.archive(outgoing.next);
  outgoing.by_store = outgoing.by_store && takes_objects();
  if (!outgoing.kept && outgoing.by_store) {
    // Pieces of a complete part can be reused for the next trial.
    const bool whole = is_kept(part);
    auto put = put_pieces(archive, whole ? 0 : offset, part.bytes, whole ? SIZE_MAX : kStoredPieces);
    if (put && !whole) return put;
    if (put) outgoing.kept = kept.add(part, std::move(*put));
    outgoing.by_store = put.has_value();
  }
  if (outgoing.kept) return outgoing.kept->from(offset, kStoredPieces);
  auto file = FileHandle::open(archive, O_RDONLY);
  if (!file) return make_error(file.error());
  if (::lseek(file->get(), offset, SEEK_SET) != offset) return make_error(file_error("read", archive, errno));
  std::string bytes(static_cast<size_t>(std::min(kArchiveChunkBytes, part.bytes - offset)), '\0');
  auto count = read_some(file->get(), bytes.data(), bytes.size(), archive);
  if (!count) return make_error(count.error());
  if (*count != bytes.size())
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: it became shorter", archive.string()));
  return std::vector<AnyRef>{AnyRef(std::make_shared<const std::string>(std::move(bytes)))};
}

}  // namespace volador::tune
