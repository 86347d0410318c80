#include "runtime/security/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include "runtime/result.h"
#include "runtime/text.h"

namespace volador::security {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  VOLADOR_CHECK(impl_->context != nullptr && EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::string_view bytes) {
  VOLADOR_CHECK(EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1);
}

Digest Sha256::finish() {
  Digest out{};
  VOLADOR_CHECK(EVP_DigestFinal_ex(impl_->context, out.data(), nullptr) == 1);
  return out;
}

Digest sha256(std::string_view bytes) {
  Digest out{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out.data());
  return out;
}

std::string raw(const Digest& digest) {
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

std::string hex(const Digest& digest) {
  return hex_text({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

bool constant_time_equal(std::string_view left, std::string_view right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

std::string to_string(const Fingerprint& fingerprint) { return "sha256:" + hex(fingerprint.digest); }

std::string short_text(const Fingerprint& fingerprint) {
  return "sha256:" + hex(fingerprint.digest).substr(0, 8) + "…";
}

}  // namespace volador::security
