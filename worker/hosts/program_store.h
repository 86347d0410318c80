// Programs that hosts are made of: where an executable of a given SHA-256 lies on this node, checked before its first
// run.
//
// On the driver's machine the driver's own file is used while it still has the expected content; elsewhere, and after a
// rebuild, a copy from the head, kept in a cache of limited size (least recently used out).
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

struct ProgramStoreOptions {
  std::filesystem::path cache;  // Made when it is needed.
  int64_t cache_bytes_max = int64_t{10} << 30;
  int64_t program_bytes_max = control::kProgramBytesMax;
  std::string machine_id;
  std::string node_name;  // For messages.
  // Gets the program to that path, checked; blocks. From the head.
  std::function<Result<void>(const security::Digest& sha256, const std::filesystem::path& destination,
                             int64_t bytes_max)>
      fetch;
};

struct PreparedProgram {
  std::string path;  // To run.
  std::string cwd;   // The program's own where that is a directory on this node, else "/".
};

// Thread safe.
class ProgramStore {
 public:
  using Done = std::function<void(Result<PreparedProgram>)>;

  explicit ProgramStore(ProgramStoreOptions options);
  // Waits a moment for work in progress; what goes on longer is left alone and calls nobody.
  ~ProgramStore();
  ProgramStore(const ProgramStore&) = delete;
  ProgramStore& operator=(const ProgramStore&) = delete;

  // `env` is the one that the program will be started with: the libraries must be found there. Never waits for a file system: `done` runs on
  // a thread of the store; several requests for one program at a time are one piece of work.
  // kInvalidArgument: it cannot run on this node (too large, wrong machine, a library missing), or its content is not
  // what was announced. kNotFound, kUnavailable: the head does not have it, or cannot be reached.
  void prepare(const protocol::Program& program, const Environment& env, Done done);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace volador::worker
