#include "runtime/security/peer_identity.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include "runtime/security/openssl_types.h"

namespace volador::security {
namespace {

constexpr std::string_view kTokenUri = "volador:token:";
constexpr int kNamesMax = 64;

tl::unexpected<Error> not_ours(std::string_view why) {
  return make_error(ErrorCode::kUnauthenticated,
                    fmt::format("the peer's certificate is not one of a Volador cluster: {}", why));
}

// Returns the value of a subject field that occurs exactly once, otherwise nullopt.
std::optional<std::string> single_field(const X509_NAME* subject, int nid) {
  const int index = X509_NAME_get_index_by_NID(subject, nid, -1);
  if (index < 0 || X509_NAME_get_index_by_NID(subject, nid, index) >= 0) return std::nullopt;
  const ASN1_STRING* value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index));
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, value);
  if (size < 0) return std::nullopt;
  std::string out(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  if (out.find('\0') != std::string::npos) return std::nullopt;
  return out;
}

std::string hex_serial(const X509* certificate) {
  const ASN1_INTEGER* serial = X509_get0_serialNumber(certificate);
  const unsigned char* data = ASN1_STRING_get0_data(serial);
  const int size = std::min(ASN1_STRING_length(serial), 32);
  std::string out;
  for (int i = 0; i < size; ++i) out += fmt::format("{:02x}", data[i]);
  return out;
}

void read_alternative_names(const X509* certificate, PeerIdentity& out) {
  const GeneralNamesPtr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  if (!names) return;
  const int count = std::min(sk_GENERAL_NAME_num(names.get()), kNamesMax);
  for (int i = 0; i < count; ++i) {
    int type = 0;
    const auto* value =
        static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type));
    if (type != GEN_DNS && type != GEN_URI) continue;
    const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                                static_cast<size_t>(ASN1_STRING_length(value)));
    if (text.find('\0') != std::string_view::npos) continue;
    if (type == GEN_DNS) {
      out.dns_names.emplace_back(text);
    } else if (text.starts_with(kTokenUri)) {
      out.token_id = text.substr(kTokenUri.size());
    }
  }
}

}  // namespace

Result<PeerIdentity> parse_peer_identity(std::string_view certificate_pem) {
  auto certificate = parse_certificate(certificate_pem);
  if (!certificate) return not_ours(certificate.error().message);
  return peer_identity_of(certificate->get());
}

Result<PeerIdentity> peer_identity_of(const x509_st* certificate) {
  if (certificate == nullptr)
    return make_error(ErrorCode::kUnauthenticated, "the peer showed no certificate. Join first.");
  const X509_NAME* subject = X509_get_subject_name(certificate);
  const auto cluster_text = single_field(subject, NID_organizationName);
  const auto role_text = single_field(subject, NID_organizationalUnitName);
  const auto name = single_field(subject, NID_commonName);
  if (!cluster_text || !role_text || !name) {
    take_openssl_reason();
    return not_ours("its subject has not one each of O, OU and CN");
  }
  const auto cluster = parse_id<ClusterId>(*cluster_text);
  if (!cluster || cluster->is_nil()) return not_ours("its O is no cluster id");
  const auto role = parse_role(*role_text);
  if (!role) return not_ours("its OU is no role");
  PeerIdentity out{.role = *role, .name = *name, .cluster = *cluster, .serial = hex_serial(certificate)};
  read_alternative_names(certificate, out);
  take_openssl_reason();
  out.not_before = wall_time(X509_get0_notBefore(certificate));
  out.not_after = wall_time(X509_get0_notAfter(certificate));
  return out;
}

Result<PeerIdentity> peer_identity_of(const ssl_st* connection) {
  return peer_identity_of(static_cast<const x509_st*>(SSL_get0_peer_certificate(connection)));
}

}  // namespace volador::security
