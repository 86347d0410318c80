// The functions that a 64-bit ELF file names, by address: also those that are not exported, which dladdr(3) does not
// know. Pure; the bytes may be anything.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace volador::stacks {

class ElfSymbols {
 public:
  // The bytes outlive it. A file of another kind, or a damaged one, names nothing.
  explicit ElfSymbols(std::span<const char> file);

  struct Found {
    std::string_view name;  // As the linker has it.
    uint64_t offset = 0;    // Into the function.
  };
  // `address` as the file has it, without what it was moved by when it was loaded.
  [[nodiscard]] std::optional<Found> find(uint64_t address) const;
  size_t size() const { return functions_.size(); }

 private:
  struct Function {
    uint64_t address = 0, bytes = 0;
    std::string_view name;
  };
  std::vector<Function> functions_;  // By address.
};

}  // namespace volador::stacks
