#include "runtime/files/file_tail.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fstream>
#include <iterator>
#include <utility>

#include "runtime/paths.h"

namespace volador {

Result<FileTail> tail_of_file(const std::filesystem::path& path, size_t lines_max, int64_t bytes_max) {
  errno = 0;
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return make_error(file_error("read", path, errno));
  const int64_t size = in.tellg();
  const int64_t from = std::max<int64_t>(0, size - bytes_max);
  in.seekg(from);
  FileTail tail;
  tail.end = from;
  std::deque<std::string> lines;
  bool first = from > 0;  // The first line may be incomplete.
  for (std::string line; std::getline(in, line) && !in.eof();) {
    tail.end += static_cast<int64_t>(line.size()) + 1;
    if (std::exchange(first, false)) continue;
    lines.push_back(std::move(line));
    if (lines.size() > lines_max) lines.pop_front();
  }
  tail.lines.assign(std::move_iterator(lines.begin()), std::move_iterator(lines.end()));
  return tail;
}

}  // namespace volador
