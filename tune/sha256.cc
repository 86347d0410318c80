#include "tune/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "runtime/result.h"

namespace volador::tune {

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

Sha256::Digest Sha256::digest() const {
  Impl copy;
  Digest out{};
  unsigned int size = 0;
  VOLADOR_CHECK(EVP_MD_CTX_copy_ex(copy.context, impl_->context) == 1 && EVP_DigestFinal_ex(copy.context, out.data(), &size) == 1);
  return out;
}

std::string to_hex(const Sha256::Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

}  // namespace volador::tune
