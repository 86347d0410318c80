#include "runtime/security/openssl_types.h"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <ctime>

#include "runtime/quantities.h"
#include "runtime/security/credentials.h"

namespace volador::security {
namespace {

constexpr size_t kCertificatesMax = 8;
constexpr int kP256Bits = 256;

int no_password(char*, int, int, void*) { return 0; }

Result<BioPtr> reader(std::string_view pem, const char* what) {
  if (pem.empty() || pem.size() > kPemBytesMax) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("not a {} in PEM: {}, expected 1 to {}", what,
                                                               counted(pem.size(), "byte"), kPemBytesMax));
  }
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  VOLADOR_CHECK(bio != nullptr);
  return bio;
}

tl::unexpected<Error> not_a(const char* what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("not a {} in PEM: {}", what, take_openssl_reason()));
}

template <class Write>
std::string written(Write write) {
  BioPtr bio(BIO_new(BIO_s_mem()));
  VOLADOR_CHECK(bio != nullptr && write(bio.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

KeyPtr make_ec_key() {
  KeyPtr key(EVP_EC_gen("P-256"));
  VOLADOR_CHECK(key != nullptr, take_openssl_reason());
  return key;
}

bool is_p256(const EVP_PKEY* key) {
  if (key == nullptr || EVP_PKEY_get_base_id(key) != EVP_PKEY_EC || EVP_PKEY_get_bits(key) != kP256Bits) return false;
  char group[64] = {};
  size_t size = 0;
  return EVP_PKEY_get_group_name(key, group, sizeof group, &size) == 1 && std::string_view(group, size) == "prime256v1";
}

std::string to_pem(const EVP_PKEY* key) {
  return written(
      [&](BIO* bio) { return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
}
std::string to_pem(const X509* certificate) {
  return written([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}
std::string to_pem(const X509_REQ* request) {
  return written([&](BIO* bio) { return PEM_write_bio_X509_REQ(bio, request); });
}

Result<KeyPtr> parse_key(std::string_view pem) {
  auto bio = reader(pem, "private key");
  if (!bio) return make_error(bio.error());
  KeyPtr key(PEM_read_bio_PrivateKey(bio->get(), nullptr, no_password, nullptr));
  if (!key) return not_a("private key");
  return key;
}

Result<RequestPtr> parse_request(std::string_view pem) {
  auto bio = reader(pem, "certificate request");
  if (!bio) return make_error(bio.error());
  RequestPtr request(PEM_read_bio_X509_REQ(bio->get(), nullptr, no_password, nullptr));
  if (!request) return not_a("certificate request");
  return request;
}

Result<CertificatePtr> parse_certificate(std::string_view pem) {
  auto bio = reader(pem, "certificate");
  if (!bio) return make_error(bio.error());
  CertificatePtr certificate(PEM_read_bio_X509(bio->get(), nullptr, no_password, nullptr));
  if (!certificate) return not_a("certificate");
  return certificate;
}

Result<std::vector<CertificatePtr>> parse_certificates(std::string_view pem) {
  auto bio = reader(pem, "certificate");
  if (!bio) return make_error(bio.error());
  std::vector<CertificatePtr> out;
  while (out.size() < kCertificatesMax) {
    CertificatePtr next(PEM_read_bio_X509(bio->get(), nullptr, no_password, nullptr));
    if (!next) break;
    out.push_back(std::move(next));
  }
  if (out.empty()) return not_a("certificate");
  ERR_clear_error();  // OpenSSL reports the end of the text as an error.
  return out;
}

WallTime wall_time(const ASN1_TIME* time) {
  constexpr int64_t kSecondsMax = 9'000'000'000;
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return WallTime{};
  const auto seconds = std::clamp<int64_t>(timegm(&parts), -kSecondsMax, kSecondsMax);
  return WallTime(std::chrono::seconds(seconds));
}

std::string utc_text(WallTime time) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[40] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string take_openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("OpenSSL error {:#x}", code);
}

Result<void> check_common_name(std::string_view name) {
  constexpr size_t kBytesMax = 64;  // X.520 ub-common-name.
  const bool control =
      std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (name.empty() || name.size() > kBytesMax || control) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("name of {}{}: expected 1 to {} bytes without control characters",
                                  counted(name.size(), "byte"), control ? " with control characters" : "", kBytesMax));
  }
  return {};
}

Result<ContextPtr> make_context(const Credentials& credentials, const ContextOptions& options) {
  ContextPtr context(SSL_CTX_new(options.server ? TLS_server_method() : TLS_client_method()));
  VOLADOR_CHECK(context != nullptr, take_openssl_reason());
  SSL_CTX_set_min_proto_version(context.get(), options.version_min);
  // No resumption: every connection authenticates, and a renewed or revoked certificate takes effect at the next one.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  if (!options.verify_peer) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
    return context;
  }
  VOLADOR_TRY(check_credentials(credentials));
  auto authority = parse_certificate(credentials.authority_pem);
  if (!authority) return make_error(authority.error());
  auto leaf = parse_certificate(credentials.certificate_pem);
  if (!leaf) return make_error(leaf.error());
  auto key = parse_key(credentials.key_pem);
  if (!key) return make_error(key.error());
  if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority->get()) != 1 ||
      SSL_CTX_use_certificate(context.get(), leaf->get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key->get()) != 1) {
    return make_error(ErrorCode::kInvalidArgument, "credentials: OpenSSL refused them: " + take_openssl_reason());
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | (options.server ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), nullptr);
  SSL_CTX_set_verify_depth(context.get(), 1);
  return context;
}

}  // namespace volador::security
