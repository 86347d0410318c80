// Files of resources in Katib's form for tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "experiments/katib/resource_reader.h"

namespace volador::experiments::katib {

inline std::string katib_file(const std::string& name) {
  std::ifstream in("tests/experiments/katib/" + name);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string texts_of(const Findings& findings) {
  std::string all;
  for (const Finding& finding : findings.errors()) all += "error: " + finding.text() + "\n";
  for (const Finding& finding : findings.warnings()) all += "warning: " + finding.text() + "\n";
  return all;
}

// The only resource of a file of data.
inline Resource katib_resource(const std::string& name) {
  ResourceReading reading = read_resources(katib_file("data/" + name), name);
  EXPECT_TRUE(reading.is_valid()) << texts_of(reading.findings);
  if (reading.resources.size() != 1) return {};
  return std::move(reading.resources.front());
}

}  // namespace volador::experiments::katib
