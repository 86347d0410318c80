// The cluster's certificate authority, held by the head. Its key controls the cluster.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"
#include "runtime/security/digest.h"
#include "runtime/security/role.h"

namespace volador::security {

inline constexpr std::chrono::minutes kBackDated{5};                    // Allows for small clock differences.
inline constexpr std::chrono::hours kValidNodeDriverOperator{30 * 24};  // Renewed at two thirds.
inline constexpr std::chrono::hours kValidHost{24};
inline constexpr std::chrono::hours kValidHead{10 * 365 * 24};  // Recreated at every start of the head.
inline constexpr std::chrono::hours kValidAuthority{20 * 365 * 24};

// Name in every head certificate, used by clients as TLS server name, because addresses may change.
inline constexpr std::string_view kHeadServerName = "head";

// Subject and lifetime of a certificate to sign.
struct SignOptions {
  Role role = Role::kDriver;  // OU. Not kHead: see issue_head.
  std::string name;           // CN; 1 to 64 bytes without control characters. A host's id in hex.
  std::string token_id;       // Token used to join; becomes the URI "volador:token:<id>".
  WallTime now;
  std::chrono::seconds valid_for{0};  // 0: by role.
};

// Immutable after creation and thread safe. Subjects: O = cluster id in hex, OU = role, CN = name.
class Authority {
 public:
  // Creates an EC P-256 key and its self-signed certificate.
  [[nodiscard]] static Result<Authority> create(ClusterId cluster, WallTime now);

  // Loads folder/authority.key and folder/authority.pem. kNotFound: neither exists. kPermissionDenied: the key is
  // readable by others (the message names the file). kInvalidArgument: corrupt, only one of them, or not a pair.
  [[nodiscard]] static Result<Authority> load(const std::filesystem::path& folder);
  // Writes both files with mode 0600, atomically, the key first. kUnavailable: file system error.
  [[nodiscard]] Result<void> save(const std::filesystem::path& folder) const;

  // Returns the certificate for a request's key as PEM. Subject, names and lifetime come from `options`, never from the
  // request. kInvalidArgument: the request is invalid, not EC P-256 or not signed by its key, or an option is out of
  // range.
  [[nodiscard]] Result<std::string> sign(std::string_view csr_pem, const SignOptions& options) const;

  // Issues the head's key and certificate: DNS "head", then `names` (host names or IP addresses, for third-party
  // tools).
  [[nodiscard]] Result<Credentials> issue_head(const std::vector<std::string>& names, WallTime now) const;

  ClusterId cluster() const;
  const std::string& certificate_pem() const;
  Fingerprint fingerprint() const;

 private:
  struct Impl;
  explicit Authority(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

// Fingerprint of the first certificate in a PEM text. kInvalidArgument: there is none.
[[nodiscard]] Result<Fingerprint> fingerprint_of(std::string_view certificate_pem);

}  // namespace volador::security
