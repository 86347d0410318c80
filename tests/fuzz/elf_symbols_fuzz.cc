// Symbol tables of programs: for any file contents, no reads outside the file, and found addresses lie within their
// function.
#include "runtime/stacks/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "runtime/result.h"
#include "tests/fuzz/driver.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace volador;
  const std::vector<char> file(data, data + size);  // Exactly this size, so that a sanitizer detects reads beyond the
                                                    // end.
  const stacks::ElfSymbols symbols(file);
  VOLADOR_CHECK(symbols.size() <= size, "more functions than bytes");
  for (const uint64_t address : {uint64_t{0}, uint64_t{0x1000}, uint64_t{0x1010}, uint64_t{0x2000}, ~uint64_t{0}}) {
    const auto found = symbols.find(address);
    if (!found) continue;
    VOLADOR_CHECK(!found->name.empty() && found->name.size() < size, "a name that the file does not hold");
    VOLADOR_CHECK(found->offset <= address, "a function that begins after the address");
  }
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  const auto bytes_of = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const std::string names("\0main\0helper\0", 13);
  const auto symbol = [](uint32_t name, uint64_t address, uint64_t length) {
    Elf64_Sym made{};
    made.st_name = name;
    made.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    made.st_shndx = 1;
    made.st_value = address;
    made.st_size = length;
    return made;
  };
  const std::string table = bytes_of(Elf64_Sym{}) + bytes_of(symbol(1, 0x1000, 32)) + bytes_of(symbol(6, 0x2000, 16));
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shoff = sizeof header;
  const uint64_t symbols_at = sizeof header + 3 * sizeof(Elf64_Shdr);
  Elf64_Shdr symbols{}, texts{};
  symbols.sh_type = SHT_SYMTAB;
  symbols.sh_link = 2;
  symbols.sh_offset = symbols_at;
  symbols.sh_size = table.size();
  texts.sh_type = SHT_STRTAB;
  texts.sh_offset = symbols_at + table.size();
  texts.sh_size = names.size();
  return {bytes_of(header) + bytes_of(Elf64_Shdr{}) + bytes_of(symbols) + bytes_of(texts) + table + names};
}
