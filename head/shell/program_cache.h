// Executables of drivers, stored by content hash, for workers without a copy. Single-threaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/control/program_transfer.h"
#include "runtime/result.h"
#include "runtime/security/digest.h"

namespace volador::head {

// Limits of the cache.
struct ProgramCacheLimits {
  int64_t program_bytes = control::kProgramBytesMax;  // Larger programs are refused.
  // Total; the least recently used program that is not in use is removed first.
  int64_t bytes = int64_t{8} << 30;
  size_t uploads = 16;  // Concurrent uploads.
};

class ProgramCache {
 public:
  // Whether a driver or actor may still need a program.
  using InUse = std::function<bool(const std::string& sha256)>;

  // Takes over existing files of the folder and removes unfinished uploads. Errors as for make_private_directory.
  [[nodiscard]] static Result<std::unique_ptr<ProgramCache>> open(std::filesystem::path folder,
                                                                  const ProgramCacheLimits& limits);

  // Path of the program, which is marked as used; nullopt: no copy. sha256: 32 raw bytes.
  std::optional<std::filesystem::path> find(const std::string& sha256);

  // An incoming program; added to the cache after finish() has verified its hash. Destroying it earlier removes all its
  // data.
  class Upload {
   public:
    ~Upload();
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;
    // Writes the next piece. kInvalidArgument: it does not follow the last one, or exceeds the size. kUnavailable: no
    // space.
    [[nodiscard]] Result<void> write(int64_t offset, std::string_view bytes);
    // kInvalidArgument: bytes are missing, or the hash does not match.
    [[nodiscard]] Result<void> finish();
    const std::string& sha256() const { return sha256_; }

   private:
    friend class ProgramCache;
    Upload(ProgramCache& cache, std::string sha256, int64_t size, std::filesystem::path temporary, int fd);

    ProgramCache& cache_;
    std::string sha256_;
    int64_t size_;
    int64_t written_ = 0;
    std::filesystem::path temporary_;
    int fd_;
    security::Sha256 hash_;
  };
  // Makes room first. kInvalidArgument: invalid hash, or too large; kUnavailable: no room, or too many uploads.
  [[nodiscard]] Result<std::unique_ptr<Upload>> begin(const std::string& sha256, int64_t size, const InUse& in_use);

  std::vector<std::string> hashes() const { return {order_.begin(), order_.end()}; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    int64_t bytes = 0;
    std::list<std::string>::iterator order;
  };
  ProgramCache(std::filesystem::path folder, const ProgramCacheLimits& limits)
      : folder_(std::move(folder)), limits_(limits) {}
  std::filesystem::path path_of(const std::string& sha256) const;
  void insert(const std::string& sha256, int64_t bytes);

  std::filesystem::path folder_;
  ProgramCacheLimits limits_;
  std::unordered_map<std::string, Entry> entries_;
  std::list<std::string> order_;  // Front: least recently used.
  int64_t bytes_ = 0;             // Entries and running uploads.
  size_t uploads_ = 0;
  uint64_t next_upload_ = 1;
};

// "sha256:9c1e0f32…", for messages; sha256: 32 raw bytes.
std::string program_name(const std::string& sha256);

}  // namespace volador::head
