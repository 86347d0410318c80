// Title of this process as shown by ps.
#pragma once

#include <cstddef>
#include <string_view>

namespace volador::cli {

// Owns the memory of the argument vector, which becomes the title of processes forked from this one.
class ProcessTitle {
 public:
  ProcessTitle(int argc, char** argv);
  // Truncated to the length of the original arguments, which are overwritten.
  void set(std::string_view title);

 private:
  char* begin_ = nullptr;
  size_t size_ = 0;
};

}  // namespace volador::cli
