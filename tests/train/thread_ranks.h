// Ranks of a group as threads of the test.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace volador::train {

// Calls body(rank) in `world` threads and returns when all have ended. Reports exceptions that leave a body.
inline void run_ranks(int world, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  std::vector<std::string> errors(static_cast<size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& e) {
        errors[static_cast<size_t>(rank)] = e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < world; ++rank) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)], "") << "exception on rank " << rank;
  }
}

}  // namespace volador::train
