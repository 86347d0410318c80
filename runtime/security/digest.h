// SHA-256, fingerprints and constant-time comparison.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace volador::security {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view bytes);
std::string raw(const Digest& digest);  // 32 bytes.
std::string hex(const Digest& digest);  // 64 lower-case digits.

// Incremental SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::string_view bytes);
  Digest finish();  // Call once; no update() after it.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The run time depends only on the lengths.
bool constant_time_equal(std::string_view left, std::string_view right);

// SHA-256 of a certificate in DER; identifies a cluster's authority.
struct Fingerprint {
  Digest digest{};

  auto operator<=>(const Fingerprint&) const = default;
};
std::string to_string(const Fingerprint& fingerprint);   // "sha256:" and 64 digits.
std::string short_text(const Fingerprint& fingerprint);  // "sha256:9c1e0f32…", for messages.

}  // namespace volador::security
