// Locates a program by its SHA-256 on this node and checks it before its first run.
//
// On the driver's machine the driver's own file is used while its content matches; elsewhere, and after a rebuild, a
// copy from the head in a cache of limited size (LRU).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "runtime/control/program_transfer.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"
#include "runtime/security/digest.h"
#include "worker/hosts/spawn.h"

namespace volador::worker {

// Cache and source of a ProgramStore.
struct ProgramStoreOptions {
  std::filesystem::path cache;  // Created when needed.
  int64_t cache_bytes_max = int64_t{10} << 30;
  int64_t program_bytes_max = control::kProgramBytesMax;
  std::string machine_id;
  std::string node_name;  // For messages.
  // Downloads the program from the head to that path and verifies it; blocks.
  std::function<Result<void>(const security::Digest& sha256, const std::filesystem::path& destination,
                             int64_t bytes_max)>
      fetch;
};

// A checked program that can be started.
struct PreparedProgram {
  std::string path;  // Path to run.
  std::string cwd;   // The program's directory if it exists on this node, otherwise "/".
};

// Locates, downloads and checks programs. Thread safe.
class ProgramStore {
 public:
  using Done = std::function<void(Result<PreparedProgram>)>;

  explicit ProgramStore(ProgramStoreOptions options);
  // Waits briefly for running work; work that takes longer is detached and its callbacks are dropped.
  ~ProgramStore();
  ProgramStore(const ProgramStore&) = delete;
  ProgramStore& operator=(const ProgramStore&) = delete;

  // `env`: the program's environment, in which its libraries must be found. Never waits for a file system: `done` runs
  // on a thread of the store; concurrent requests for one program share the work. kInvalidArgument: it cannot run on
  // this node (too large, wrong machine, missing library), or its content does not match. kNotFound, kUnavailable: the
  // head does not have it, or is unreachable.
  void prepare(const protocol::Program& program, const Environment& env, Done done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace volador::worker
