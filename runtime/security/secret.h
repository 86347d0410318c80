// Secret bytes: no operator<<, no formatter, wiped on destruction.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace volador::security {

// Bytes that are wiped on destruction.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string bytes) : bytes_(std::move(bytes)) {}
  Secret(const Secret&) = default;
  Secret(Secret&& other) noexcept;
  Secret& operator=(const Secret& other);
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  // Returns bytes from the kernel's random generator.
  static Secret random(size_t size_bytes);

  // For the code that sends or stores the bytes.
  const std::string& reveal() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // Compares in constant time.
  bool equals(std::string_view bytes) const;

 private:
  void wipe();

  std::string bytes_;
};

}  // namespace volador::security

// Prevents logging at compile time.
template <>
struct fmt::formatter<volador::security::Secret> {
  formatter() = delete;
};
