// Runs command lines in the test's process, with their own home.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/process_title.h"
#include "tests/temporary_directory.h"

namespace volador::cli {

class CommandLineTest : public ::testing::Test {
 protected:
  struct Output {
    int code = 0;
    std::string out, error;
  };
  Output run(const std::vector<std::string>& arguments) {
    ProcessTitle title(0, nullptr);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Output output;
    output.code = run_command_line(arguments, {.volador_home = folder_.path().native()}, title);
    output.out = ::testing::internal::GetCapturedStdout();
    output.error = ::testing::internal::GetCapturedStderr();
    return output;
  }
  volador::TemporaryDirectory folder_;
};

}  // namespace volador::cli
