// SHA-256, fed piece by piece (OpenSSL).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace volador::tune {

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::string_view bytes);
  Digest digest() const;  // Of all bytes so far; more may follow.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string to_hex(const Sha256::Digest& digest);  // 64 lower-case digits.

}  // namespace volador::tune
