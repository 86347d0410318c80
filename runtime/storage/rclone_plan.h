// How rclone is called for a storage: environment and arguments, and what its output means. Pure.
//
// Credentials are in the environment of the child only, never in its arguments. The child reads no configuration file.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"
#include "runtime/storage/storage_url.h"

namespace volador::storage {

struct RcloneVersion {
  int major = 0, minor = 0;

  auto operator<=>(const RcloneVersion&) const = default;
};
// The first line of `rclone version`: "rclone v1.75.2".
std::optional<RcloneVersion> parse_rclone_version(std::string_view output);
// kInvalidArgument: this version cannot be used for the storage; says which can, and how to get it.
[[nodiscard]] Result<void> check_rclone_version(const RcloneVersion& version, const StorageUrl& url);
// How to install rclone, for messages.
std::string_view rclone_advice();

struct RcloneLimits {
  std::chrono::seconds connect{15};  // Until a connection is there.
  std::chrono::seconds idle{60};     // Without a byte of a request in progress.
  int tries = 3;                     // For each request, with growing pauses.
  int transfers = 4;                 // Files at the same time.
};

// Environment of the child ("NAME=value"): that of this process without RCLONE_* variables, and without those of other
// credentials if the target names its own.
[[nodiscard]] Result<std::vector<std::string>> rclone_environment(const std::map<std::string, std::string>& own,
                                                                  const StorageTarget& target);
// "volador:bucket/prefix/key/": `key` may be empty. `folder`: with a slash at the end.
std::string rclone_place(const StorageUrl& url, std::string_view key, bool folder);
// Arguments that all calls have.
std::vector<std::string> rclone_flags(const RcloneLimits& limits, const RcloneVersion& version, const StorageUrl& url);

// A line of the log on stderr (--use-json-log).
struct RcloneLine {
  bool is_error = false;
  std::string message;                        // The text of an error, with the name of the object.
  std::string copied;                         // A file that has arrived.
  std::optional<int64_t> bytes, total_bytes;  // Statistics.
};
RcloneLine parse_rclone_line(std::string_view line);

// All texts that must not be printed: those of the target and of this process's environment.
std::vector<std::string> secrets_of(const std::map<std::string, std::string>& own, const StorageTarget& target);
// The error of a call that ended with `exit_code` after these errors. `what` names what was done, in the form "store
// /tmp/x in s3://bucket/x". The text has no secrets.
Error rclone_error(std::string_view what, const StorageUrl& url, const std::vector<std::string>& secrets, int exit_code,
                   const std::vector<std::string>& errors);
// Whether the same call may succeed later.
bool may_help_to_repeat(const Error& error);
// Delay before the next attempt, after `attempts` ones: doubles up to 30 s; `random`, in [0, 1), shortens it by up to
// a half. nullopt: give up.
std::optional<std::chrono::milliseconds> pause_before_retry(int attempts, double random);

// `text` without the secrets, and without signatures and keys in addresses.
std::string without_secrets(std::string text, const std::vector<std::string>& secrets);

}  // namespace volador::storage
