#include "runtime/block_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace volador {
namespace {

TEST(BlockPoolTest, NoBlockIsGivenOutTwice) {
  using Pool = BlockPool<64>;
  std::vector<void*> blocks;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 1000; ++i) {
      blocks.push_back(Pool::take());
      std::memset(blocks.back(), i, 64);
    }
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), blocks.size());
    std::thread([&] {  // Freed on another thread and reused.
      for (void* block : blocks) Pool::give(block);
      blocks.clear();
      for (int i = 0; i < 10; ++i) blocks.push_back(Pool::take());
    })
        .join();
  }
  for (void* block : blocks) Pool::give(block);
}

TEST(BlockPoolTest, WhatIsMadeOfItEndsOnAnyThread) {
  struct Counted {
    explicit Counted(int& its_count) : count(its_count) { ++count; }
    ~Counted() { --count; }
    int& count;
  };
  int alive = 0;
  std::vector<std::shared_ptr<Counted>> all;
  for (int i = 0; i < 500; ++i) all.push_back(std::allocate_shared<Counted>(PooledAllocator<Counted>(), alive));
  EXPECT_EQ(alive, 500);
  std::thread([&] { all.clear(); }).join();
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace volador
