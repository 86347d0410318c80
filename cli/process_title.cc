#include "cli/process_title.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace volador::cli {

ProcessTitle::ProcessTitle(int argc, char** argv) {
  if (argc < 1) return;
  begin_ = argv[0];
  char* end = begin_;
  // The arguments are usually contiguous; stop where they are not.
  for (int i = 0; i < argc && argv[i] == end; ++i) end += std::strlen(argv[i]) + 1;
  size_ = static_cast<size_t>(end - begin_);
}

void ProcessTitle::set(std::string_view title) {
  if (size_ == 0) return;
  std::memset(begin_, 0, size_);
  std::memcpy(begin_, title.data(), std::min(title.size(), size_ - 1));
  ::prctl(PR_SET_NAME, std::string(title.substr(0, 15)).c_str());
}

}  // namespace volador::cli
