#include "worker/store/arena_filler.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <string>
#include <vector>

namespace volador::worker {
namespace {

constexpr size_t kChunk = 10'000;

Result<void> write(ArenaFiller& filler, const std::shared_ptr<const net::UniqueFd>& to, int64_t offset,
                   const std::shared_ptr<char>& buffer) {
  std::promise<Result<void>> written;
  filler.write(to, offset, {buffer.get(), kChunk}, buffer,
               [&](Result<void> outcome) { written.set_value(std::move(outcome)); });
  return written.get_future().get();
}

TEST(ArenaFiller, ChunksLieWhereTheyBelongAndTheirMemoryServesAgain) {
  ArenaFiller filler(kChunk);
  const auto to = std::make_shared<const net::UniqueFd>(::memfd_create("filled", MFD_CLOEXEC));
  auto first = filler.buffer();
  const char* const memory = first.get();
  std::memset(first.get(), 'a', kChunk);
  ASSERT_TRUE(write(filler, to, kChunk, first));
  filler.close();  // Otherwise the last writer may still hold it.
  first.reset();
  auto second = filler.buffer();
  EXPECT_EQ(second.get(), memory);
  std::memset(second.get(), 'b', kChunk);
  ASSERT_TRUE(write(filler, to, 0, second));
  std::string all(2 * kChunk, '.');
  ASSERT_EQ(::pread(to->get(), all.data(), all.size() + 1, 0), static_cast<ssize_t>(all.size()));
  EXPECT_EQ(all, std::string(kChunk, 'b') + std::string(kChunk, 'a'));
}

TEST(ArenaFiller, WhatCannotBeWrittenIsSaid) {
  ArenaFiller filler(kChunk);
  const auto nowhere = std::make_shared<const net::UniqueFd>(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const auto buffer = filler.buffer();
  const auto outcome = write(filler, nowhere, 0, buffer);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace volador::worker
