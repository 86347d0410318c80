// The actor that runs one attempt of one trial in a process of its own. Every method may be called again with the same arguments after a
// lost connection: it gives the same answer and does nothing twice.
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

// What the actor is made from.
struct TrialSpec {
  std::string trainable;   // In the registry of the program.
  Bytes parameters;        // Envelope.
  std::string experiment;
  std::string trial_id;
  int64_t attempt = 1;
  std::map<std::string, int64_t> resources = {};  // What it was started with, as amounts of a ResourceSet.
  std::string trial_name = {};
  GroupId group = {};               // In which it runs; nil: none.
  int64_t artifact_bytes_max = 0;   // Of its artifacts folder.
};
VOLADOR_FIELDS(TrialSpec, trainable, parameters, experiment, trial_id, attempt, resources, trial_name, group, artifact_bytes_max);

struct TrialSetup {
  Config config;
  int64_t step = 0;                   // Of the checkpoint to go on from; 0: none.
  std::vector<DirectoryPart> parts;  // Of what restore_pieces brought, in the order in which they are unpacked; empty: none.
};
VOLADOR_FIELDS(TrialSetup, config, step, parts);

struct TrialReady {
  std::string hostname;
  std::string node;  // Its name; the answer may be here before the head has said where the actor runs.
  int32_t pid = 0;
  std::string restore_error;  // Not empty: the archive cannot be read; nothing was set up.
};
VOLADOR_FIELDS(TrialReady, hostname, node, pid, restore_error);

struct StepReply {
  int64_t step = 0;
  bool finished = false;  // The function returned; no metrics.
  bool done = false;      // The metrics say that this is the last step.
  Metrics metrics;
  std::chrono::nanoseconds duration{0};
  std::vector<std::string> media;  // Histograms and images, as of tensorboard_events.h.
  bool has_artifacts = false;      // It uses its artifacts folder.
  std::vector<std::string> tags;   // Given in this step.
};
VOLADOR_FIELDS(StepReply, step, finished, done, metrics, duration, media, has_artifacts, tags);

struct SaveReply {
  bool nothing = false;  // The trainable saves nothing.
  std::string error;     // Not empty: it saved, but its files could not be packed.
  std::vector<DirectoryPart> parts;
};
VOLADOR_FIELDS(SaveReply, nothing, error, parts);

// Bytes of a part, in a row: stored objects (by_store), else inside the message.
struct PartPieces {
  std::vector<AnyRef> pieces;  // Empty: at its end.
  bool stored = false;         // Else this node's store took none, or none was asked for.
};
VOLADOR_FIELDS(PartPieces, pieces, stored);

struct PiecesTaken {
  int64_t bytes = 0;  // Of the part that are there.
  std::string lost;   // Not empty: the next piece cannot be read; says why.
};
VOLADOR_FIELDS(PiecesTaken, bytes, lost);

// Files of the artifacts folder that are new or have changed, as one archive.
struct ArtifactReply {
  int64_t files = 0;  // 0: none has.
  std::string error;  // Not empty: they cannot be had; says why.
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

  // After a trial has ended: another one from here on, with restore_chunk and setup to follow. False: this actor is of no further use.
  bool reuse(TrialSpec spec, Config config);
  // Before setup: pieces of the part of this checksum, from `offset` on, of the checkpoint to go on from. Waits until they are on this node.
  // Of what is there already nothing is written again.
  PiecesTaken restore_pieces(std::string sha256, int64_t offset, std::vector<AnyRef> pieces);
  TrialReady setup(TrialSetup setup);
  // Step n after step n - 1; the first one follows the checkpoint's. Step n again gives the same reply.
  StepReply step(int64_t step);
  // Makes the parts of the state after this step, which is the last one done; those that are as they were at the last save stay as they are.
  SaveReply save(int64_t step);
  // Of one of those parts, from `offset` on: as many pieces as travel at once.
  PartPieces read_part(std::string sha256, int64_t offset, bool by_store);
  // Makes the archive of what has changed in the artifacts folder since the last number, which is smaller. The same number again gives the
  // same answer.
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
  int64_t step_ = 0;             // Last one done.
  int64_t saved_step_ = -1;      // The archive is of this step.
  SaveReply saved_;
  std::unique_ptr<DirectoryPacker> packer_;
  std::vector<AnyRef> restored_from_;  // Up to the first save: so they stay on this node for others who restore them.
  int64_t restored_bytes_ = 0;         // Of these.
  std::unique_ptr<ArtifactFolder> artifacts_;
  int64_t collected_number_ = 0;
  ArtifactReply collected_;
  std::filesystem::path scratch_;
  bool owns_scratch_ = false;
};
VOLADOR_ACTOR(TrialActor, &TrialActor::reuse, &TrialActor::restore_pieces, &TrialActor::setup, &TrialActor::step, &TrialActor::save, &TrialActor::read_part,
              &TrialActor::collect_artifacts, &TrialActor::read_artifacts);

// One piece of an archive on its way inside a message.
inline constexpr int64_t kArchiveChunkBytes = 1 << 20;
// The same as a stored object, and how many of these travel at once.
inline constexpr int64_t kStoredPieceBytes = 16 << 20;
inline constexpr size_t kStoredPieces = 8;

// Of parts of checkpoints that stay in object stores for who restores them next: by a program, and by each actor.
inline constexpr int64_t kKeptPartBytes = int64_t{512} << 20;

// Pieces of a file of `bytes` from `offset` on, at most so many, as stored objects; a small last one inside its reference. kStoreFull, kUnavailable: the store takes none, or there
// is none, or of the disk.
Result<std::vector<AnyRef>> put_pieces(const std::filesystem::path& path, int64_t offset, int64_t bytes, size_t most);

}  // namespace volador::tune
