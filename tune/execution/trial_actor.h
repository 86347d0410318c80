// Actor that runs one attempt of one trial in its own process. Every method is idempotent: after a lost connection it
// may be called again with the same arguments and returns the same result.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/ref.h"
#include "runtime/files/directory_parts.h"
#include "runtime/files/durable_file.h"
#include "runtime/serialize/codec.h"
#include "tune/execution/artifact_folder.h"
#include "tune/execution/trainable_host.h"
#include "tune/loop/metrics.h"
#include "tune/space/config.h"

namespace volador {
VOLADOR_FIELDS(DirectoryPart, sha256, bytes);
}

namespace volador::tune {

// Constructor argument of the actor.
struct TrialSpec {
  std::string trainable;  // Name in the registry of the program.
  Bytes parameters;       // Envelope.
  std::string experiment;
  std::string trial_id;
  int64_t attempt = 1;
  std::map<std::string, int64_t> resources = {};  // Resources of this attempt, as amounts of a ResourceSet.
  std::string trial_name = {};
  GroupId group = {};              // Placement group it runs in; nil: none.
  int64_t artifact_bytes_max = 0;  // Limit of its artifacts folder.
};
VOLADOR_FIELDS(TrialSpec, trainable, parameters, experiment, trial_id, attempt, resources, trial_name, group,
               artifact_bytes_max);

struct TrialSetup {
  Config config;
  int64_t step = 0;                  // Step of the checkpoint to continue from; 0: none.
  std::vector<DirectoryPart> parts;  // Parts sent by restore_pieces, in the order of unpacking; empty: none.
};
VOLADOR_FIELDS(TrialSetup, config, step, parts);

struct TrialReady {
  std::string hostname;
  std::string node;  // Name of the node; the reply may arrive before the head has reported where the actor runs.
  int32_t pid = 0;
  std::string restore_error;  // Not empty: the archive is unreadable and setup did not run.
};
VOLADOR_FIELDS(TrialReady, hostname, node, pid, restore_error);

struct StepReply {
  int64_t step = 0;
  bool finished = false;  // The function returned; no metrics.
  bool done = false;      // The metrics mark this as the last step.
  Metrics metrics;
  std::chrono::nanoseconds duration{0};
  std::vector<std::string> media;  // Histograms and images; see tensorboard_events.h.
  bool has_artifacts = false;      // The artifacts folder exists.
  std::vector<std::string> tags;   // Tags set in this step.
};
VOLADOR_FIELDS(StepReply, step, finished, done, metrics, duration, media, has_artifacts, tags);

struct SaveReply {
  bool nothing = false;  // The trainable does not support saving.
  std::string error;     // Not empty: it saved, but its files could not be packed.
  std::vector<DirectoryPart> parts;
};
VOLADOR_FIELDS(SaveReply, nothing, error, parts);

// Consecutive bytes of a part: stored objects (by_store), or inline in the message.
struct PartPieces {
  std::vector<AnyRef> pieces;  // Empty: end of the part.
  bool stored = false;         // False: the node's store accepted none, or by_store was false.
};
VOLADOR_FIELDS(PartPieces, pieces, stored);

struct PiecesTaken {
  int64_t bytes = 0;  // Bytes of the part that have arrived.
  std::string lost;   // Not empty: the next piece is unreadable, and why.
};
VOLADOR_FIELDS(PiecesTaken, bytes, lost);

// New and changed files of the artifacts folder, as one archive.
struct ArtifactReply {
  int64_t files = 0;  // 0: no changes.
  std::string error;  // Not empty: collecting failed, and why.
  std::string sha256;
  int64_t archive_bytes = 0;
};
VOLADOR_FIELDS(ArtifactReply, files, error, sha256, archive_bytes);

class TrialActor {
 public:
  explicit TrialActor(TrialSpec spec);
  // Lets the trainable clean up.
  ~TrialActor();
  TrialActor(const TrialActor&) = delete;
  TrialActor& operator=(const TrialActor&) = delete;

  // After a trial has ended, prepares the actor for another one; restore_pieces and setup follow. False: this actor
  // must not be used any more.
  bool reuse(TrialSpec spec, Config config);
  // Before setup: receives pieces, from `offset`, of the part with this checksum of the checkpoint to continue from.
  // Waits until they are on this node. Bytes that have already arrived are not written again.
  PiecesTaken restore_pieces(std::string sha256, int64_t offset, std::vector<AnyRef> pieces);
  TrialReady setup(TrialSetup setup);
  // Step n follows step n - 1; the first one follows the checkpoint's. Repeating step n returns the same reply.
  StepReply step(int64_t step);
  // Packs the state after this step, which must be the last one done, into parts; parts unchanged since the last save
  // are kept.
  SaveReply save(int64_t step);
  // Returns the pieces of one of those parts from `offset`, as many as are transferred at once.
  PartPieces read_part(std::string sha256, int64_t offset, bool by_store);
  // Packs the changes of the artifacts folder since the last call, which had a smaller number. Repeating a number
  // returns the same reply.
  ArtifactReply collect_artifacts(int64_t number);
  Bytes read_artifacts(int64_t offset, int64_t size);

 private:
  const std::filesystem::path& scratch();
  TrialContext context_of(const TrialSpec& spec);
  StepReply run_step(int64_t step);
  void forget_restored();
  std::filesystem::path restored(const std::string& sha256);
  std::string unpack(const std::vector<DirectoryPart>& parts, const std::filesystem::path& directory);

  TrialSpec spec_;
  TrialContext context_;
  std::unique_ptr<TrainableHost> trainable_;
  std::optional<TrialReady> ready_;
  std::optional<StepReply> last_;
  int64_t step_ = 0;         // Last step done.
  int64_t saved_step_ = -1;  // Step of the archive.
  SaveReply saved_;
  std::unique_ptr<DirectoryPacker> packer_;
  std::vector<AnyRef> restored_from_;  // Kept until the first save, so that the pieces stay on this node for others
                                       // that restore them.
  int64_t restored_bytes_ = 0;         // Bytes of these pieces.
  std::unique_ptr<ArtifactFolder> artifacts_;
  int64_t collected_number_ = 0;
  ArtifactReply collected_;
  std::filesystem::path scratch_;
  bool owns_scratch_ = false;
};
VOLADOR_ACTOR(TrialActor, &TrialActor::reuse, &TrialActor::restore_pieces, &TrialActor::setup, &TrialActor::step,
              &TrialActor::save, &TrialActor::read_part, &TrialActor::collect_artifacts, &TrialActor::read_artifacts);

// Size of an archive piece that is transferred in a message.
inline constexpr int64_t kArchiveChunkBytes = 1 << 20;
// Size of a piece that is transferred as a stored object, and the number transferred at once.
inline constexpr int64_t kStoredPieceBytes = 16 << 20;
inline constexpr size_t kStoredPieces = 8;

// Limit of the checkpoint parts kept in object stores for later restores: per program, and per actor.
inline constexpr int64_t kKeptPartBytes = int64_t{512} << 20;

// Puts up to `most` pieces of a file of `bytes`, from `offset`, into the object store; a small last piece is stored
// inside its reference. kStoreFull, kUnavailable: the store is full or absent, or disk error.
Result<std::vector<AnyRef>> put_pieces(const std::filesystem::path& path, int64_t offset, int64_t bytes, size_t most);

}  // namespace volador::tune
