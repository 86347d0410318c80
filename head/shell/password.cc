#include "head/shell/password.h"

#include <sodium.h>

#include <array>

namespace volador::head {

Result<std::string> password_hash(std::string_view password) {
  std::array<char, crypto_pwhash_STRBYTES> text{};
  if (sodium_init() < 0 ||
      crypto_pwhash_str_alg(text.data(), password.data(), password.size(), crypto_pwhash_OPSLIMIT_INTERACTIVE,
                            crypto_pwhash_MEMLIMIT_INTERACTIVE, crypto_pwhash_ALG_ARGON2ID13) != 0) {
    return make_error(ErrorCode::kUnavailable, "the head has not enough memory to hash a password (64 MiB); ask again");
  }
  return std::string(text.data());
}

bool password_matches(std::string_view password, const std::string& hash) {
  return sodium_init() >= 0 && crypto_pwhash_str_verify(hash.c_str(), password.data(), password.size()) == 0;
}

const std::string& hash_of_no_password() {
  static const std::string hash(
      "$argon2id$v=19$m=65536,t=2,p=1$ag81Q/nGIql9Fsb4Y69UDw$Sknim78dr7imLp/l+VcopzNT6U+SJ6LJuHIpbAsB53A");
  return hash;
}

}  // namespace volador::head
