// Certificate, key and trusted authority of a process.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::security {

// PEM texts. key_pem is secret: its files have mode 0600, and it is never logged.
struct Credentials {
  std::string certificate_pem;  // The leaf; for the head followed by the authority's certificate.
  std::string key_pem;          // PKCS#8, EC P-256.
  std::string authority_pem;    // The cluster's authority: the only root.
};

// Paths of the files with a process's credentials.
struct CredentialFiles {
  std::filesystem::path certificate;
  std::filesystem::path key;
  std::filesystem::path authority;

  // folder/stem.pem, folder/stem.key, folder/authority.pem.
  static CredentialFiles in(const std::filesystem::path& folder, const std::string& stem);
};

// Writes the files with mode 0600, each atomically, the certificate last: load() after a crash between them reports a
// mismatch.
[[nodiscard]] Result<void> save_credentials(const Credentials& credentials, const CredentialFiles& files);

// kNotFound: certificate or key is missing. kPermissionDenied: see read_secret_file. kInvalidArgument: a file has other
// contents, or key and certificate do not match, or the certificate is not of this authority.
[[nodiscard]] Result<Credentials> load_credentials(const CredentialFiles& files);

// Checks that key, certificate and authority match. kInvalidArgument names the mismatch.
[[nodiscard]] Result<void> check_credentials(const Credentials& credentials);

// Validity period of a certificate.
struct Validity {
  WallTime not_before;
  WallTime not_after;
};
// Validity of the first certificate in the text. kInvalidArgument: there is none.
[[nodiscard]] Result<Validity> validity_of(std::string_view certificate_pem);

// True from two thirds of a certificate's lifetime on.
bool due_for_renewal(const Validity& validity, WallTime now);

}  // namespace volador::security
