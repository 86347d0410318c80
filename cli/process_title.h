// What ps shows of this process.
#pragma once

#include <cstddef>
#include <string_view>

namespace volador::cli {

// The memory of an argument vector, which becomes the title of processes forked from this one.
class ProcessTitle {
 public:
  ProcessTitle(int argc, char** argv);
  // Cut to the length of the original arguments, which are gone afterwards.
  void set(std::string_view title);

 private:
  char* begin_ = nullptr;
  size_t size_ = 0;
};

}  // namespace volador::cli
