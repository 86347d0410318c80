#include "runtime/stacks/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace volador::stacks {
namespace {

// Nothing: beyond the end of the file.
template <class T>
std::optional<T> read_at(std::span<const char> file, uint64_t at) {
  if (at > file.size() || file.size() - at < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

std::span<const char> part_of(std::span<const char> file, uint64_t at, uint64_t bytes) {
  if (at > file.size() || file.size() - at < bytes) return {};
  return file.subspan(at, bytes);
}

std::string_view text_at(std::span<const char> texts, uint64_t at) {
  if (at >= texts.size()) return {};
  const std::string_view rest(texts.data() + at, texts.size() - at);
  return rest.substr(0, std::min(rest.find('\0'), rest.size()));
}

std::optional<Elf64_Shdr> section(std::span<const char> file, const Elf64_Ehdr& header, uint64_t number) {
  if (number >= header.e_shnum || header.e_shentsize != sizeof(Elf64_Shdr)) return std::nullopt;
  const uint64_t within = number * sizeof(Elf64_Shdr);
  if (header.e_shoff > file.size() || within > file.size() - header.e_shoff) return std::nullopt;
  return read_at<Elf64_Shdr>(file, header.e_shoff + within);
}

}  // namespace

ElfSymbols::ElfSymbols(std::span<const char> file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) return;
  for (const uint32_t wanted : {SHT_SYMTAB, SHT_DYNSYM}) {
    if (!functions_.empty()) break;  // The first table contains everything of the second.
    for (uint64_t number = 0; number < header->e_shnum; ++number) {
      const auto table = section(file, *header, number);
      if (!table || table->sh_type != wanted) continue;
      const auto names = section(file, *header, table->sh_link);
      if (!names) continue;
      const auto texts = part_of(file, names->sh_offset, names->sh_size);
      const auto symbols = part_of(file, table->sh_offset, table->sh_size);
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
        const auto symbol = read_at<Elf64_Sym>(symbols, at);
        if (!symbol || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF) continue;
        const std::string_view name = text_at(texts, symbol->st_name);
        if (!name.empty()) functions_.push_back({.address = symbol->st_value, .bytes = symbol->st_size, .name = name});
      }
    }
  }
  std::stable_sort(functions_.begin(), functions_.end(),
                   [](const Function& a, const Function& b) { return a.address < b.address; });
}

std::optional<ElfSymbols::Found> ElfSymbols::find(uint64_t address) const {
  auto at = std::upper_bound(functions_.begin(), functions_.end(), address,
                             [](uint64_t wanted, const Function& one) { return wanted < one.address; });
  if (at == functions_.begin()) return std::nullopt;
  --at;
  const uint64_t offset = address - at->address;
  if (offset >= std::max<uint64_t>(at->bytes, 1)) return std::nullopt;
  return Found{.name = at->name, .offset = offset};
}

}  // namespace volador::stacks
