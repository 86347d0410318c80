#include "runtime/stacks/elf_symbols.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

namespace volador::stacks {
namespace {

std::vector<char> own_file() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ElfSymbols, KnowsFunctionsThatAreNotExported) {
  const auto file = own_file();
  const ElfSymbols symbols(file);
  ASSERT_GT(symbols.size(), 100u);
  // Looks up a function of this file: its address must lead back to its name.
  size_t found = 0;
  for (uint64_t address = 0; address < (uint64_t{4} << 20); address += 64) {
    const auto one = symbols.find(address);
    if (!one) continue;
    EXPECT_FALSE(one->name.empty());
    const auto start = symbols.find(address - one->offset);
    ASSERT_TRUE(start);
    EXPECT_EQ(start->offset, 0u);
    ++found;
  }
  EXPECT_GT(found, 100u);
}

TEST(ElfSymbols, ADamagedFileNamesNothingOrSomethingButReadsNothingElse) {
  const auto whole = own_file();
  for (const size_t size : {size_t{0}, size_t{3}, size_t{16}, size_t{63}, size_t{64}, size_t{200}, size_t{4096},
                            whole.size() / 2, whole.size() - 1}) {
    // A copy of exactly this size, so that the sanitizer detects reads beyond the end.
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const ElfSymbols symbols(cut);
    static_cast<void>(symbols.find(0x1000));
  }
  std::minstd_rand random(7);
  std::vector<char> damaged(whole);
  for (int round = 0; round < 50; ++round) {
    for (size_t at = 0; at < 64; ++at) damaged[at] = whole[at];
    for (int n = 0; n < 4; ++n) damaged[16 + random() % 48] = static_cast<char>(random());
    const ElfSymbols symbols(damaged);
    static_cast<void>(symbols.find(random()));
  }
}

TEST(ElfSymbols, AnotherKindOfFileNamesNothing) {
  const std::string text = "#!/bin/sh\necho a script is a program too\n";
  EXPECT_EQ(ElfSymbols(std::span(text)).size(), 0u);
}

}  // namespace
}  // namespace volador::stacks
