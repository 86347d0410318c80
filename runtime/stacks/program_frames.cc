#include "runtime/stacks/program_frames.h"

#include <utility>

namespace volador::stacks {
namespace {

ReadProgramFrames& program_frames_reader() {
  static auto* reader = new ReadProgramFrames();
  return *reader;
}

}  // namespace

void set_program_frames(ReadProgramFrames read) { program_frames_reader() = std::move(read); }

ProgramFrames read_program_frames(std::chrono::milliseconds patience) {
  const ReadProgramFrames& read = program_frames_reader();
  return read ? read(patience) : ProgramFrames{};
}

}  // namespace volador::stacks
