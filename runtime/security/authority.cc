#include "runtime/security/authority.h"

#include <fmt/format.h>
#include <openssl/bn.h>

#include <algorithm>

#include "runtime/security/openssl_types.h"
#include "runtime/security/secret_file.h"

namespace volador::security {
namespace {

using Asn1IntegerPtr = std::unique_ptr<ASN1_INTEGER, Freed<ASN1_INTEGER_free>>;
using BignumPtr = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;

constexpr int kSerialBits = 127;  // Positive in 16 bytes.
constexpr long kVersion3 = 2;
constexpr std::string_view kAuthorityUnit = "authority";

struct Paths {
  std::filesystem::path key;
  std::filesystem::path certificate;
};
Paths paths_in(const std::filesystem::path& folder) { return {folder / "authority.key", folder / "authority.pem"}; }

std::time_t seconds_of(WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

void set_serial(X509* certificate) {
  const BignumPtr number(BN_new());
  VOLADOR_CHECK(number != nullptr && BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1);
  const Asn1IntegerPtr serial(BN_to_ASN1_INTEGER(number.get(), nullptr));
  VOLADOR_CHECK(serial != nullptr && X509_set_serialNumber(certificate, serial.get()) == 1);
}

bool add_field(X509_NAME* subject, const char* field, std::string_view value) {
  return X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

// `value` must be constant: OpenSSL parses it as configuration.
void add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  VOLADOR_CHECK(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1, take_openssl_reason());
}

void add_text_name(GENERAL_NAMES* names, int type, std::string_view text) {
  ASN1_IA5STRING* value = ASN1_IA5STRING_new();
  GENERAL_NAME* name = GENERAL_NAME_new();
  VOLADOR_CHECK(value != nullptr && name != nullptr &&
                ASN1_STRING_set(value, text.data(), static_cast<int>(text.size())) == 1);
  GENERAL_NAME_set0_value(name, type, value);
  VOLADOR_CHECK(sk_GENERAL_NAME_push(names, name) > 0);
}

void add_dns_or_address(GENERAL_NAMES* names, const std::string& text) {
  if (ASN1_OCTET_STRING* address = a2i_IPADDRESS(text.c_str()); address != nullptr) {
    GENERAL_NAME* name = GENERAL_NAME_new();
    VOLADOR_CHECK(name != nullptr);
    GENERAL_NAME_set0_value(name, GEN_IPADD, address);
    VOLADOR_CHECK(sk_GENERAL_NAME_push(names, name) > 0);
    return;
  }
  take_openssl_reason();
  add_text_name(names, GEN_DNS, text);
}

struct Leaf {
  Role role;
  std::string_view name;
  std::string_view token_id;
  std::vector<std::string> names;  // DNS names or IP addresses.
  WallTime not_before;
  WallTime not_after;
};

const char* usage_of(Role role) {
  switch (role) {
    case Role::kHead:
      return "serverAuth";
    case Role::kHost:
    case Role::kNode:
      return "serverAuth,clientAuth";
    case Role::kDriver:
    case Role::kOperator:
    case Role::kViewer:
      return "clientAuth";
  }
  return "clientAuth";
}

Result<std::string> issue(const Leaf& leaf, EVP_PKEY* subject_key, X509* authority, EVP_PKEY* authority_key,
                          ClusterId cluster) {
  const CertificatePtr certificate(X509_new());
  VOLADOR_CHECK(certificate != nullptr && X509_set_version(certificate.get(), kVersion3) == 1);
  set_serial(certificate.get());
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  VOLADOR_CHECK(add_field(subject, "O", to_string(cluster)) && add_field(subject, "OU", to_string(leaf.role)));
  if (!add_field(subject, "CN", leaf.name)) {
    return make_error(ErrorCode::kInvalidArgument, "name: expected UTF-8: " + take_openssl_reason());
  }
  VOLADOR_CHECK(X509_set_issuer_name(certificate.get(), X509_get_subject_name(authority)) == 1 &&
                ASN1_TIME_set(X509_getm_notBefore(certificate.get()), seconds_of(leaf.not_before)) != nullptr &&
                ASN1_TIME_set(X509_getm_notAfter(certificate.get()), seconds_of(leaf.not_after)) != nullptr &&
                X509_set_pubkey(certificate.get(), subject_key) == 1);
  add_extension(certificate.get(), authority, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(certificate.get(), authority, NID_key_usage, "critical,digitalSignature");
  add_extension(certificate.get(), authority, NID_ext_key_usage, usage_of(leaf.role));
  add_extension(certificate.get(), authority, NID_subject_key_identifier, "hash");
  add_extension(certificate.get(), authority, NID_authority_key_identifier, "keyid:always");

  const GeneralNamesPtr names(sk_GENERAL_NAME_new_null());
  VOLADOR_CHECK(names != nullptr);
  for (const auto& name : leaf.names) add_dns_or_address(names.get(), name);
  if (!leaf.token_id.empty()) add_text_name(names.get(), GEN_URI, fmt::format("volador:token:{}", leaf.token_id));
  VOLADOR_CHECK(X509_add1_ext_i2d(certificate.get(), NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) == 1);

  VOLADOR_CHECK(X509_sign(certificate.get(), authority_key, EVP_sha256()) > 0, take_openssl_reason());
  return to_pem(certificate.get());
}

bool plain_text(std::string_view text, size_t bytes_max) {
  return text.size() <= bytes_max && std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

struct Authority::Impl {
  KeyPtr key;
  CertificatePtr certificate;
  std::string key_pem;
  std::string certificate_pem;
  ClusterId cluster;
  Fingerprint fingerprint;
};

Result<Authority> Authority::create(ClusterId cluster, WallTime now) {
  if (cluster.is_nil()) return make_error(ErrorCode::kInvalidArgument, "cluster id: expected one that is not nil");
  auto impl = std::make_shared<Impl>();
  impl->key = make_ec_key();
  impl->certificate.reset(X509_new());
  X509* certificate = impl->certificate.get();
  VOLADOR_CHECK(certificate != nullptr && X509_set_version(certificate, kVersion3) == 1);
  set_serial(certificate);
  X509_NAME* subject = X509_get_subject_name(certificate);
  VOLADOR_CHECK(add_field(subject, "O", to_string(cluster)) && add_field(subject, "OU", kAuthorityUnit) &&
                add_field(subject, "CN", "Volador cluster " + short_id(cluster)));
  VOLADOR_CHECK(X509_set_issuer_name(certificate, subject) == 1 &&
                ASN1_TIME_set(X509_getm_notBefore(certificate), seconds_of(now - kBackDated)) != nullptr &&
                ASN1_TIME_set(X509_getm_notAfter(certificate), seconds_of(now + kValidAuthority)) != nullptr &&
                X509_set_pubkey(certificate, impl->key.get()) == 1);
  add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(certificate, certificate, NID_subject_key_identifier, "hash");
  VOLADOR_CHECK(X509_sign(certificate, impl->key.get(), EVP_sha256()) > 0, take_openssl_reason());
  impl->key_pem = to_pem(impl->key.get());
  impl->certificate_pem = to_pem(certificate);
  impl->cluster = cluster;
  auto fingerprint = fingerprint_of(impl->certificate_pem);
  VOLADOR_CHECK(fingerprint.has_value());
  impl->fingerprint = *fingerprint;
  return Authority(std::move(impl));
}

Result<Authority> Authority::load(const std::filesystem::path& folder) {
  const Paths paths = paths_in(folder);
  auto key_pem = read_secret_file(paths.key);
  auto certificate_pem = read_secret_file(paths.certificate);
  const auto absent = [](const auto& text) { return !text && text.error().code == ErrorCode::kNotFound; };
  if (absent(key_pem) != absent(certificate_pem)) {
    const auto& missing = absent(key_pem) ? paths.key : paths.certificate;
    const auto& found = absent(key_pem) ? paths.certificate : paths.key;
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} is missing beside {}. Restore it from a backup; without it this cluster cannot go on: "
                    "use another state folder for a new one.",
                    missing.string(), found.string()));
  }
  if (!key_pem) return make_error(key_pem.error());
  if (!certificate_pem) return make_error(certificate_pem.error());

  const auto broken = [](const std::filesystem::path& path, std::string_view why) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path.string(), why));
  };
  auto impl = std::make_shared<Impl>();
  auto key = parse_key(*key_pem);
  if (!key) return broken(paths.key, key.error().message);
  auto certificate = parse_certificate(*certificate_pem);
  if (!certificate) return broken(paths.certificate, certificate.error().message);
  if (!is_p256(key->get())) return broken(paths.key, "expected an EC key on P-256");
  if (X509_check_private_key(certificate->get(), key->get()) != 1) {
    take_openssl_reason();
    return broken(paths.certificate, fmt::format("it does not belong to {}", paths.key.string()));
  }
  char organization[80] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate->get()), NID_organizationName, organization,
                            sizeof organization);
  const auto cluster = parse_id<ClusterId>(organization);
  if (X509_check_ca(certificate->get()) != 1 || !cluster || cluster->is_nil()) {
    return broken(paths.certificate, "it is not the certificate of a Volador authority");
  }
  impl->key = std::move(*key);
  impl->certificate = std::move(*certificate);
  impl->key_pem = to_pem(impl->key.get());
  impl->certificate_pem = to_pem(impl->certificate.get());
  impl->cluster = *cluster;
  auto fingerprint = fingerprint_of(impl->certificate_pem);
  if (!fingerprint) return make_error(fingerprint.error());
  impl->fingerprint = *fingerprint;
  return Authority(std::move(impl));
}

Result<void> Authority::save(const std::filesystem::path& folder) const {
  const Paths paths = paths_in(folder);
  VOLADOR_TRY(write_secret_file(paths.key, impl_->key_pem));
  return write_secret_file(paths.certificate, impl_->certificate_pem);
}

Result<std::string> Authority::sign(std::string_view csr_pem, const SignOptions& options) const {
  const auto refused = [](std::string why) { return make_error(ErrorCode::kInvalidArgument, std::move(why)); };
  if (options.role == Role::kHead) return refused("role: a request for a head's certificate is never signed");
  VOLADOR_TRY(check_common_name(options.name));
  constexpr size_t kTokenIdMax = 64;
  if (!plain_text(options.token_id, kTokenIdMax))
    return refused("token_id: expected at most 64 visible ASCII characters");
  if (options.valid_for.count() < 0 || options.valid_for > kValidHead) {
    return refused(fmt::format("valid_for: expected 0 to {} s, got {}", std::chrono::seconds(kValidHead).count(),
                               options.valid_for.count()));
  }
  auto request = parse_request(csr_pem);
  if (!request) return refused("csr_pem: " + request.error().message);
  EVP_PKEY* key = X509_REQ_get0_pubkey(request->get());
  if (!is_p256(key)) {
    take_openssl_reason();
    return refused("csr_pem: expected an EC key on P-256");
  }
  if (X509_REQ_verify(request->get(), key) != 1) {
    take_openssl_reason();
    return refused("csr_pem: it was not signed by its own key");
  }
  Leaf leaf{.role = options.role, .name = options.name, .token_id = options.token_id};
  if (options.role == Role::kHost) {
    if (!parse_id<HostId>(options.name)) return refused("name: expected the host's id, 32 hex digits");
    leaf.names = {options.name};
  } else {
    // Always set a name: without one, some TLS clients use the CN, which users choose.
    leaf.names = {fmt::format("{}.volador", to_string(options.role))};
  }
  std::chrono::seconds life = options.valid_for;
  if (life.count() == 0) life = options.role == Role::kHost ? kValidHost : kValidNodeDriverOperator;
  leaf.not_before = options.now - kBackDated;
  leaf.not_after = std::min<WallTime>(options.now + life, wall_time(X509_get0_notAfter(impl_->certificate.get())));
  return issue(leaf, key, impl_->certificate.get(), impl_->key.get(), impl_->cluster);
}

Result<Credentials> Authority::issue_head(const std::vector<std::string>& names, WallTime now) const {
  Leaf leaf{.role = Role::kHead, .name = kHeadServerName, .names = {std::string(kHeadServerName)}};
  for (const auto& name : names) {
    constexpr size_t kDnsNameMax = 253;
    if (name.empty() || !plain_text(name, kDnsNameMax)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("\"{}\": expected a host name or an IP address", name));
    }
    if (std::find(leaf.names.begin(), leaf.names.end(), name) == leaf.names.end()) leaf.names.push_back(name);
  }
  leaf.not_before = now - kBackDated;
  leaf.not_after = std::min<WallTime>(now + kValidHead, wall_time(X509_get0_notAfter(impl_->certificate.get())));
  const KeyPtr key = make_ec_key();
  auto certificate = issue(leaf, key.get(), impl_->certificate.get(), impl_->key.get(), impl_->cluster);
  if (!certificate) return make_error(certificate.error());
  return Credentials{.certificate_pem = *certificate + impl_->certificate_pem,
                     .key_pem = to_pem(key.get()),
                     .authority_pem = impl_->certificate_pem};
}

ClusterId Authority::cluster() const { return impl_->cluster; }
const std::string& Authority::certificate_pem() const { return impl_->certificate_pem; }
Fingerprint Authority::fingerprint() const { return impl_->fingerprint; }

Result<Fingerprint> fingerprint_of(std::string_view certificate_pem) {
  auto certificate = parse_certificate(certificate_pem);
  if (!certificate) return make_error(certificate.error());
  Fingerprint out;
  unsigned int size = 0;
  if (X509_digest(certificate->get(), EVP_sha256(), out.digest.data(), &size) != 1) {
    return make_error(ErrorCode::kInvalidArgument, "certificate: " + take_openssl_reason());
  }
  return out;
}

}  // namespace volador::security
