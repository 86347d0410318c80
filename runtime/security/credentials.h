// What a process shows to its peers, and what it checks theirs by.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::security {

// PEM texts. key_pem is secret: files of it are 0600, and nothing logs it.
struct Credentials {
  std::string certificate_pem;  // The leaf; the head's is followed by the authority's.
  std::string key_pem;          // PKCS#8, EC P-256.
  std::string authority_pem;    // The cluster's authority: the only root.
};

struct CredentialFiles {
  std::filesystem::path certificate;
  std::filesystem::path key;
  std::filesystem::path authority;

  // folder/stem.pem, folder/stem.key, folder/authority.pem.
  static CredentialFiles in(const std::filesystem::path& folder, const std::string& stem);
};

// Files 0600, each replaced atomically, the certificate last: load() after a crash between them says that they do not match.
[[nodiscard]] Result<void> save_credentials(const Credentials& credentials, const CredentialFiles& files);

// kNotFound: no certificate or key there. kPermissionDenied: see read_secret_file. kInvalidArgument: a file holds
// something else, or key and certificate do not belong together, or the certificate is not of this authority.
[[nodiscard]] Result<Credentials> load_credentials(const CredentialFiles& files);

// Key, certificate and authority belong together. kInvalidArgument with what does not.
[[nodiscard]] Result<void> check_credentials(const Credentials& credentials);

struct Validity {
  WallTime not_before;
  WallTime not_after;
};
// Of the first certificate in the text. kInvalidArgument: it is none.
[[nodiscard]] Result<Validity> validity_of(std::string_view certificate_pem);

// True from two thirds of the life of a certificate: time to ask for the next one.
bool due_for_renewal(const Validity& validity, WallTime now);

}  // namespace volador::security
