// Owning pointers for OpenSSL's objects, for this library's .cc files only: the only header here that includes OpenSSL.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::security {

// Deleter that calls kFree.
template <auto kFree>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, Freed<X509_REQ_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using GeneralNamesPtr = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;

inline constexpr size_t kPemBytesMax = 256 << 10;  // Longer texts are rejected without parsing.

// Creates a P-256 key.
KeyPtr make_ec_key();
bool is_p256(const EVP_PKEY* key);

std::string to_pem(const EVP_PKEY* key);  // PKCS#8, not encrypted.
std::string to_pem(const X509* certificate);
std::string to_pem(const X509_REQ* request);

// Errors are kInvalidArgument with "not a … in PEM". Encrypted keys are rejected; no password is requested.
Result<KeyPtr> parse_key(std::string_view pem);
Result<RequestPtr> parse_request(std::string_view pem);
Result<CertificatePtr> parse_certificate(std::string_view pem);                // The first certificate.
Result<std::vector<CertificatePtr>> parse_certificates(std::string_view pem);  // At least one, at most 8.

// Clamped to ±285 years around 1970, so that malicious dates do not overflow.
WallTime wall_time(const ASN1_TIME* time);
// "2026-11-21 12:00:00 UTC".
std::string utc_text(WallTime time);

// Returns the newest entry of this thread's error queue, for messages; clears the queue.
std::string take_openssl_reason();

// Checks a certificate's CN: 1 to 64 bytes of UTF-8 without control characters. kInvalidArgument.
Result<void> check_common_name(std::string_view name);

// Client or server context with key, certificate and the authority as its only root. TLS 1.2 is for gRPC only.
struct ContextOptions {
  bool server = false;
  int version_min = TLS1_3_VERSION;
  bool verify_peer = true;
};
struct Credentials;
Result<ContextPtr> make_context(const Credentials& credentials, const ContextOptions& options);

}  // namespace volador::security
