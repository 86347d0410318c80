// Bytes that must not be seen: no operator<<, no formatter, wiped when they end.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace volador::security {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string bytes) : bytes_(std::move(bytes)) {}
  Secret(const Secret&) = default;
  Secret(Secret&& other) noexcept;
  Secret& operator=(const Secret& other);
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  // From the kernel's generator.
  static Secret random(size_t size_bytes);

  // For the one place that sends or stores them.
  const std::string& reveal() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // In constant time.
  bool equals(std::string_view bytes) const;

 private:
  void wipe();

  std::string bytes_;
};

}  // namespace volador::security

// Logging one does not compile.
template <>
struct fmt::formatter<volador::security::Secret> {
  formatter() = delete;
};
