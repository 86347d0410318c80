// Function symbols of a 64-bit ELF file by address, including those that are not exported and therefore unknown to
// dladdr(3). Pure; safe on arbitrary input.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace volador::stacks {

// Symbol table of one ELF file.
class ElfSymbols {
 public:
  // The bytes outlive this object. Other and damaged files have no symbols.
  explicit ElfSymbols(std::span<const char> file);

  struct Found {
    std::string_view name;  // Mangled name.
    uint64_t offset = 0;    // Offset into the function.
  };
  // `address`: as in the file, without the load offset.
  [[nodiscard]] std::optional<Found> find(uint64_t address) const;
  size_t size() const { return functions_.size(); }

 private:
  struct Function {
    uint64_t address = 0, bytes = 0;
    std::string_view name;
  };
  std::vector<Function> functions_;  // Sorted by address.
};

}  // namespace volador::stacks
