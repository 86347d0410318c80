// main() of a test program against a cluster that the command line starts.
#pragma once

#include <gtest/gtest.h>
#include <volador/volador.h>

#include <cstdlib>
#include <optional>

namespace volador::testing {

// `cluster`: points to the one that is made for the tests, while they run. What its constructor sets in the environment leads init() there.
template <class Cluster>
int run_tests_on(Cluster*& cluster, int argc, char** argv, InitOptions options = {}) {
  std::optional<Cluster> made;
  if (std::getenv("VOLADOR_ROLE") == nullptr) {  // Else it is a new start to run actors: init() takes over.
    made.emplace();
    cluster = &*made;
  }
  auto joined = volador::init(argc, argv, std::move(options));
  ::testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  joined.shutdown();
  return failed;
}

}  // namespace volador::testing
