#include "runtime/actor/actor_checkpoints.h"

#include <fmt/format.h>

#include <future>
#include <utility>

#include "runtime/actor/blocking.h"
#include "runtime/files/directory_archive.h"
#include "runtime/files/durable_file.h"
#include "runtime/files/passing_folder.h"
#include "runtime/log.h"
#include "runtime/paths.h"
#include "runtime/protocol/checkpoint_limit.h"
#include "runtime/resources.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

constexpr ArchiveLimits kLimits{.content_bytes_max = int64_t{1} << 30, .entries_max = 10'000};

struct Folder : PassingFolder {
  explicit Folder(fs::path where) : PassingFolder(std::move(where)) { (void)make_private_directory(path()); }
};

Result<void> run_guarded(const std::function<void()>& code) {
  auto ran = guarded([&]() -> Result<std::string> {
    code();
    return std::string();
  });
  if (!ran) return make_error(std::move(ran).error());
  return {};
}

}  // namespace

ActorCheckpoints::ActorCheckpoints(const ActorClass& actor_class, std::shared_ptr<void> object, Options options,
                                   After after, Keep keep)
    : class_(actor_class),
      object_(std::move(object)),
      options_(std::move(options)),
      after_(std::move(after)),
      keep_(std::move(keep)) {}

Result<void> ActorCheckpoints::restore(const std::string& archive) {
  if (!class_.load_checkpoint) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("class {} has no load_checkpoint in this program", class_.name));
  }
  const Folder folder(options_.scratch / "restore");
  VOLADOR_TRY(write_file_atomically(folder.path() / "archive.vla", archive, Durability::kProcess));
  const auto unpacked =
      unpack_archive(folder.path() / "archive.vla", folder.path() / "checkpoint", kLimits, Durability::kProcess);
  if (!unpacked) return make_error(unpacked.error());
  return run_guarded([&] { class_.load_checkpoint(object_.get(), folder.path() / "checkpoint"); });
}

Result<protocol::Checkpoint> ActorCheckpoints::save() {
  const Folder folder(options_.scratch / "save");
  const fs::path content = folder.path() / "checkpoint";
  VOLADOR_TRY(make_private_directory(content));
  VOLADOR_TRY(run_guarded([&] { class_.save_checkpoint(object_.get(), content); }));
  const auto packed = pack_directory(content, folder.path() / "archive.vla", kLimits, Durability::kProcess);
  if (!packed) return make_error(packed.error());
  if (packed->archive_bytes > static_cast<int64_t>(kActorCheckpointBytesMax)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("save_checkpoint of {} wrote {} compressed; at most {} fit: keep large state in "
                                  "files of its own and save their paths",
                                  class_.name, format_bytes(packed->archive_bytes),
                                  format_bytes(static_cast<int64_t>(kActorCheckpointBytesMax))));
  }
  auto bytes = read_file(folder.path() / "archive.vla", kActorCheckpointBytesMax);
  if (!bytes) return make_error(bytes.error());
  protocol::Checkpoint checkpoint;
  checkpoint.set_epoch(options_.epoch);
  checkpoint.set_sequence(++sequence_);
  checkpoint.set_archive(std::move(*bytes));
  calls_ = 0;
  return checkpoint;
}

Result<void> ActorCheckpoints::before_reply() {
  ++calls_;
  if (options_.calls == 0 || calls_ < options_.calls) return {};
  auto checkpoint = save();
  if (!checkpoint) return make_error(std::move(checkpoint).error());
  auto outcome = std::make_shared<std::promise<Result<void>>>();
  auto future = outcome->get_future();
  keep_(std::move(*checkpoint), [outcome](Result<void> kept) { outcome->set_value(std::move(kept)); });
  const internal::Blocking blocking;
  return future.get();
}

void ActorCheckpoints::after_reply() {
  if (options_.interval.count() == 0 || calls_ == 0 || scheduled_) return;
  scheduled_ = true;
  after_(options_.interval, [this] { save_in_background(); });
}

void ActorCheckpoints::save_in_background() {
  scheduled_ = false;
  if (calls_ == 0) return;
  if (in_flight_->load()) {  // The head is unreachable or slow: the newest state is sent after the previous checkpoint.
    after_reply();
    return;
  }
  const auto warn = [name = class_.name](const Error& error) {
    log::warn("host", "no checkpoint was kept; a restart goes on from an older state",
              {{"class", name}, {"error", error.message}});
  };
  auto checkpoint = save();
  if (!checkpoint) {
    calls_ = 0;  // The next call tries again.
    warn(checkpoint.error());
    return;
  }
  in_flight_->store(true);
  keep_(std::move(*checkpoint), [in_flight = in_flight_, warn](Result<void> kept) {
    in_flight->store(false);
    if (!kept) warn(kept.error());
  });
}

}  // namespace volador
