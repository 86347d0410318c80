#include "runtime/security/credentials.h"

#include <fmt/format.h>

#include "runtime/security/openssl_types.h"
#include "runtime/security/secret_file.h"

namespace volador::security {

CredentialFiles CredentialFiles::in(const std::filesystem::path& folder, const std::string& stem) {
  return {
      .certificate = folder / (stem + ".pem"), .key = folder / (stem + ".key"), .authority = folder / "authority.pem"};
}

Result<void> save_credentials(const Credentials& credentials, const CredentialFiles& files) {
  VOLADOR_TRY(write_secret_file(files.authority, credentials.authority_pem));
  VOLADOR_TRY(write_secret_file(files.key, credentials.key_pem));
  return write_secret_file(files.certificate, credentials.certificate_pem);
}

Result<Credentials> load_credentials(const CredentialFiles& files) {
  auto certificate = read_secret_file(files.certificate);
  if (!certificate) return make_error(certificate.error());
  auto key = read_secret_file(files.key);
  if (!key) return make_error(key.error());
  auto authority = read_secret_file(files.authority);
  if (!authority) return make_error(authority.error());
  Credentials out{
      .certificate_pem = std::move(*certificate), .key_pem = std::move(*key), .authority_pem = std::move(*authority)};
  if (auto checked = check_credentials(out); !checked) {
    return make_error(checked.error().code,
                      fmt::format("{}: {}. Remove it and {} to join again.", files.certificate.string(),
                                  checked.error().message, files.key.string()));
  }
  return out;
}

Result<void> check_credentials(const Credentials& credentials) {
  auto leaf = parse_certificate(credentials.certificate_pem);
  if (!leaf) return make_error(ErrorCode::kInvalidArgument, "certificate: " + leaf.error().message);
  auto key = parse_key(credentials.key_pem);
  if (!key) return make_error(ErrorCode::kInvalidArgument, "key: " + key.error().message);
  auto authority = parse_certificate(credentials.authority_pem);
  if (!authority) return make_error(ErrorCode::kInvalidArgument, "authority: " + authority.error().message);
  if (X509_check_private_key(leaf->get(), key->get()) != 1) {
    take_openssl_reason();
    return make_error(ErrorCode::kInvalidArgument, "the certificate is not of this key");
  }
  if (X509_verify(leaf->get(), X509_get0_pubkey(authority->get())) != 1) {
    take_openssl_reason();
    return make_error(ErrorCode::kInvalidArgument, "the certificate was not signed by this authority");
  }
  return {};
}

Result<Validity> validity_of(std::string_view certificate_pem) {
  auto certificate = parse_certificate(certificate_pem);
  if (!certificate) return make_error(certificate.error());
  return Validity{.not_before = wall_time(X509_get0_notBefore(certificate->get())),
                  .not_after = wall_time(X509_get0_notAfter(certificate->get()))};
}

bool due_for_renewal(const Validity& validity, WallTime now) {
  const auto life = validity.not_after - validity.not_before;
  return now >= validity.not_before + life / 3 * 2;
}

}  // namespace volador::security
