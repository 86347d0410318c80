// Runs LLVMFuzzerTestOneInput on seeds and seeded random mutations of them, for compilers without libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The parser under test. Returns 0; a bug appears as an abort or a sanitizer report.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace volador::fuzz {

// Valid inputs of the parser under test as starting points; defined by each harness.
std::vector<std::string> seeds();

}  // namespace volador::fuzz
