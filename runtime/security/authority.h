// The cluster's certificate authority. Lives in the head; whoever has its key is the cluster.
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

inline constexpr std::chrono::minutes kBackDated{5};                  // Clocks of machines differ a little.
inline constexpr std::chrono::hours kValidNodeDriverOperator{30 * 24};  // Renewed at two thirds.
inline constexpr std::chrono::hours kValidHost{24};
inline constexpr std::chrono::hours kValidHead{10 * 365 * 24};        // Made anew at every start of the head.
inline constexpr std::chrono::hours kValidAuthority{20 * 365 * 24};

// The name that the head's certificate always carries and every client asks for (TLS server name): addresses may change.
inline constexpr std::string_view kHeadServerName = "head";

struct SignOptions {
  Role role = Role::kDriver;           // OU. Not kHead: see issue_head.
  std::string name;                    // CN; 1 to 64 bytes without control characters. Of a host: its id in hex (also its DNS name).
  std::string token_id;                // What it joined with; becomes the URI "volador:token:<id>".
  WallTime now;
  std::chrono::seconds valid_for{0};   // 0: as the role says.
};

// Immutable after creation and thread safe. Subjects: O = cluster id in hex, OU = role, CN = name.
class Authority {
 public:
  // A new EC P-256 key and its self-signed certificate.
  [[nodiscard]] static Result<Authority> create(ClusterId cluster, WallTime now);

  // From folder/authority.key and folder/authority.pem.
  // kNotFound: neither is there. kPermissionDenied: the key may be read by others (message names the file).
  // kInvalidArgument: broken, only one of them, or not a pair.
  [[nodiscard]] static Result<Authority> load(const std::filesystem::path& folder);
  // Both 0600 and atomic, the key first. kUnavailable: the file system refused.
  [[nodiscard]] Result<void> save(const std::filesystem::path& folder) const;

  // The certificate of a request's key, PEM. Subject, names and life come from `options`, never from the request.
  // kInvalidArgument: the request is broken, not EC P-256 or not signed by its key, or an option is out of range.
  [[nodiscard]] Result<std::string> sign(std::string_view csr_pem, const SignOptions& options) const;

  // The head's own key and certificate: DNS "head", then `names` (host names or IP addresses, for people's tools).
  [[nodiscard]] Result<Credentials> issue_head(const std::vector<std::string>& names, WallTime now) const;

  ClusterId cluster() const;
  const std::string& certificate_pem() const;
  Fingerprint fingerprint() const;

 private:
  struct Impl;
  explicit Authority(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

// Of the first certificate in a PEM text. kInvalidArgument: it is none.
[[nodiscard]] Result<Fingerprint> fingerprint_of(std::string_view certificate_pem);

}  // namespace volador::security
