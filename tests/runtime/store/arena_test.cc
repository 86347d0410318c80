#include "runtime/store/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace volador {
namespace {

constexpr size_t kBytes = 1 << 16;

TEST(Arena, WhatItsWriterWritesReadersSee) {
  const auto arena = make_arena(kBytes);
  ASSERT_TRUE(arena) << arena.error().message;
  const auto reader = map_arena(arena->fd.get(), kBytes);
  ASSERT_TRUE(reader) << reader.error().message;
  std::memcpy(arena->mapping->data() + 100, "hello", 5);
  EXPECT_EQ(std::memcmp((*reader)->data() + 100, "hello", 5), 0);
}

TEST(Arena, NobodyElseCanWriteShrinkOrGrowIt) {
  const auto arena = make_arena(kBytes);
  ASSERT_TRUE(arena);
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd.get(), 0), MAP_FAILED);
  EXPECT_NE(ftruncate(arena->fd.get(), kBytes / 2), 0);
  EXPECT_NE(ftruncate(arena->fd.get(), kBytes * 2), 0);
  EXPECT_LT(pwrite(arena->fd.get(), "x", 1, 0), 0);
}

TEST(Arena, AnOpenOneIsWrittenByItsDescriptorUntilItIsSealed) {
  const auto arena = make_open_arena(kBytes);
  ASSERT_TRUE(arena) << arena.error().message;
  ASSERT_EQ(pwrite(arena->fd.get(), "hello", 5, 100), 5);
  EXPECT_FALSE(map_arena(arena->fd.get(), kBytes)) << "no reader before it is sealed";
  ASSERT_TRUE(seal_arena(arena->fd.get()));
  EXPECT_LT(pwrite(arena->fd.get(), "x", 1, 0), 0);
  const auto reader = map_arena(arena->fd.get(), kBytes);
  ASSERT_TRUE(reader) << reader.error().message;
  std::memcpy(arena->mapping->data() + 105, " you", 4);  // Its writer's mapping stays.
  EXPECT_EQ(std::memcmp((*reader)->data() + 100, "hello you", 9), 0);
}

TEST(Arena, DescriptorsThatCouldStillChangeAreRefused) {
  const int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(fd, kBytes), 0);
  EXPECT_FALSE(map_arena(fd, kBytes)) << "a reader would crash when its writer shrinks it";
  close(fd);
  const auto arena = make_arena(kBytes);
  ASSERT_TRUE(arena);
  EXPECT_FALSE(map_arena(arena->fd.get(), kBytes * 2));
  EXPECT_FALSE(map_arena(STDIN_FILENO, kBytes));
}

}  // namespace
}  // namespace volador
