#include "runtime/store/large_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace volador {
namespace {

TEST(LargeCopy, TakesAsManyThreadsAsAreGrantedAndWorthIt) {
  EXPECT_EQ(copy_threads(100, 8), 1);
  EXPECT_EQ(copy_threads(kParallelCopyBytesMin - 1, 8), 1);
  EXPECT_EQ(copy_threads(kParallelCopyBytesMin, 8), 2);
  EXPECT_EQ(copy_threads(size_t{1} << 30, 8), kParallelCopyThreadsMax);
  EXPECT_EQ(copy_threads(size_t{1} << 30, 2), 2);
  EXPECT_EQ(copy_threads(size_t{1} << 30, 1), 1);
  EXPECT_EQ(copy_threads(size_t{1} << 30, 0), 1);
}

TEST(LargeCopy, EveryByteIsCopiedAndNoneBeside) {
  constexpr size_t kGuard = 64;
  for (const size_t size :
       {size_t{0}, size_t{1}, kParallelCopyBytesMin - 1, kParallelCopyBytesMin, kParallelCopyBytesMin + 1,
        3 * kParallelCopyShareMin + 12'345, 6 * kParallelCopyShareMin + 1}) {
    std::vector<std::byte> from(size);
    for (size_t at = 0; at < size; ++at) from[at] = static_cast<std::byte>(at * 2654435761U >> 13);
    for (int granted = 1; granted <= 5; ++granted) {
      std::vector<std::byte> to(size + kGuard, std::byte{0x5a});
      copy_large(to.data(), from, granted);
      ASSERT_TRUE(std::equal(from.begin(), from.end(), to.begin())) << size << " bytes, " << granted << " threads";
      for (size_t at = size; at < to.size(); ++at)
        ASSERT_EQ(to[at], std::byte{0x5a}) << size << " bytes, " << granted << " threads";
    }
  }
}

}  // namespace
}  // namespace volador
