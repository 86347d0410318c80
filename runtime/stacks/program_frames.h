// Frames of threads in the language of the program, where that is not C++: the Python package sets a reader for them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace volador::stacks {

struct ProgramFrames {
  std::map<uintptr_t, std::vector<std::string>> threads;  // By pthread_self(); innermost first.
  std::string note;                                       // What is unusual about them.
};

// Returns after about `patience` at most, on any thread.
using ReadProgramFrames = std::function<ProgramFrames(std::chrono::milliseconds patience)>;

// Called before there are threads; a forked process keeps it.
void set_program_frames(ReadProgramFrames read);
// Nothing: no reader is set.
[[nodiscard]] ProgramFrames read_program_frames(std::chrono::milliseconds patience);

}  // namespace volador::stacks
