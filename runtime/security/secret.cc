#include "runtime/security/secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <utility>

#include "runtime/result.h"
#include "runtime/security/digest.h"

namespace volador::security {

// A short string is stored inside the object, so that a move leaves a copy behind: the source is wiped.
Secret::Secret(Secret&& other) noexcept : bytes_(std::move(other.bytes_)) { other.wipe(); }

Secret& Secret::operator=(const Secret& other) {
  if (this != &other) {
    wipe();
    bytes_ = other.bytes_;
  }
  return *this;
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    wipe();
    bytes_ = std::move(other.bytes_);
    other.wipe();
  }
  return *this;
}

Secret::~Secret() { wipe(); }

Secret Secret::random(size_t size_bytes) {
  std::string bytes(size_bytes, '\0');
  VOLADOR_CHECK(RAND_priv_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(size_bytes)) == 1);
  return Secret(std::move(bytes));
}

bool Secret::equals(std::string_view bytes) const { return constant_time_equal(bytes_, bytes); }

void Secret::wipe() {
  bytes_.resize(bytes_.capacity());
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
  bytes_.clear();
}

}  // namespace volador::security
