#include "runtime/security/own_certificate.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/paths.h"
#include "runtime/security/openssl_types.h"

namespace volador::security {
namespace {

auto refused(std::string_view flag, const std::filesystem::path& file, const std::string& what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{} {}: {}", flag, file.string(), what));
}

constexpr std::string_view kCertificateFlag = "--tls-cert", kKeyFlag = "--tls-key";

Result<std::string> read_pem(std::string_view flag, const std::filesystem::path& file, std::string_view holds) {
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown))
    return refused(flag, file, fmt::format("is a folder; name the PEM file with {}", holds));
  if (::access(file.c_str(), R_OK) != 0) {
    if (errno == EACCES)
      return refused(
          flag, file,
          fmt::format("may not be read by user id {}, which starts the head; let it read the file", ::geteuid()));
    return refused(flag, file, fmt::format("{}; name the PEM file with {}", std::strerror(errno), holds));
  }
  auto text = read_file_limited(file, kPemBytesMax);
  if (!text) return refused(flag, file, fmt::format("{}; expected a PEM file with {}", text.error().message, holds));
  return std::move(*text);
}

std::string text_of(const ASN1_STRING* text) {
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text)));
}

std::vector<std::string> names_of(X509* certificate) {
  std::vector<std::string> out;
  const GeneralNamesPtr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int at = 0; names != nullptr && at < sk_GENERAL_NAME_num(names.get()); ++at) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), at);
    if (name->type == GEN_DNS) out.push_back(text_of(name->d.dNSName));
    if (name->type != GEN_IPADD) continue;
    const std::string bytes = text_of(name->d.iPAddress);
    if (bytes.size() != 4 && bytes.size() != 16) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (::inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text, sizeof text) != nullptr)
      out.emplace_back(text);
  }
  return out;
}

}  // namespace

bool OwnCertificate::is_for(std::string_view name) const {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<OwnCertificate> load_own_certificate(const OwnCertificateFiles& files, WallTime now) {
  auto certificate_pem = read_pem(kCertificateFlag, files.certificate, "the certificate and its chain");
  if (!certificate_pem) return make_error(certificate_pem.error());
  auto key_pem = read_pem(kKeyFlag, files.key, "the certificate's private key");
  if (!key_pem) return make_error(key_pem.error());

  const auto chain = parse_certificates(*certificate_pem);
  if (!chain) {
    const bool swapped = certificate_pem->find("PRIVATE KEY-----") != std::string::npos;
    return refused(kCertificateFlag, files.certificate,
                   swapped ? "holds a private key; give the certificate here and the key with --tls-key"
                           : chain.error().message + "; `openssl x509 -in FILE -outform PEM` writes one");
  }
  if (key_pem->find("ENCRYPTED") != std::string::npos) {
    return refused(kKeyFlag, files.key,
                   "is encrypted, and nobody is there to ask for its password; write it plain, readable by you only: "
                   "`openssl pkey -in FILE -out PLAIN`");
  }
  const auto key = parse_key(*key_pem);
  if (!key) return refused(kKeyFlag, files.key, key.error().message);
  X509* leaf = chain->front().get();
  if (X509_check_private_key(leaf, key->get()) != 1) {
    take_openssl_reason();
    return refused(kKeyFlag, files.key,
                   fmt::format("is not the key of the first certificate in {}; give a pair that was made together, the "
                               "server's certificate before its chain",
                               files.certificate.string()));
  }
  OwnCertificate out{.certificate_pem = std::move(*certificate_pem),
                     .key_pem = std::move(*key_pem),
                     .validity = {.not_before = wall_time(X509_get0_notBefore(leaf)),
                                  .not_after = wall_time(X509_get0_notAfter(leaf))},
                     .names = names_of(leaf)};
  if (now >= out.validity.not_after) {
    return refused(
        kCertificateFlag, files.certificate,
        fmt::format("expired on {}; renew it, or start without --tls-cert to use one of the cluster's own authority",
                    utc_text(out.validity.not_after)));
  }
  if (now < out.validity.not_before) {
    return refused(kCertificateFlag, files.certificate,
                   fmt::format("is valid from {} on; check this machine's clock, or use another one until then",
                               utc_text(out.validity.not_before)));
  }
  return out;
}

}  // namespace volador::security
