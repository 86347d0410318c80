// main() of a test program against a cluster started by the command line.
#pragma once

#include <gtest/gtest.h>
#include <volador/volador.h>

#include <cstdlib>
#include <optional>

namespace volador::testing {

// `cluster`: set to the cluster that is created for the tests, while they run. Its constructor sets environment
// variables that init() uses.
template <class Cluster>
int run_tests_on(Cluster*& cluster, int argc, char** argv, InitOptions options = {}) {
  std::optional<Cluster> made;
  if (std::getenv("VOLADOR_ROLE") == nullptr) {  // Otherwise the process was started to run actors: init() does not
                                                 // return.
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
