// Splits a program's output into lines that are safe to print, store and send. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace volador::worker {

inline constexpr size_t kLogLineBytesMax = 16 << 10;  // Longer lines are cut here and end with " … [N bytes cut]".

// Splits a byte stream into lines.
class LineSplitter {
 public:
  // Returns the lines completed by `bytes`, without line ends. "\r\n" is a line end; of text overwritten by "\r"
  // (progress bars) the last part remains.
  [[nodiscard]] std::vector<std::string> feed(std::string_view bytes);
  // Returns the incomplete line, if any: at the end of the output, or after a timeout.
  [[nodiscard]] std::vector<std::string> flush();
  bool has_partial() const { return !partial_.empty() || cut_ > 0; }

 private:
  std::string take();

  std::string partial_;  // At most kLogLineBytesMax.
  size_t cut_ = 0;       // Bytes of this line that were cut.
};

// Control characters except tab become "\xNN", invalid UTF-8 becomes U+FFFD. Colors (CSI … m) are removed.
[[nodiscard]] std::string printable(std::string_view line);

// The last lines of a stream, at most 20 and 4 KiB, for a death cause.
class LineTail {
 public:
  static constexpr size_t kLinesMax = 20;
  static constexpr size_t kBytesMax = 4 << 10;

  void add(const std::string& line);
  // Joined by '\n'.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace volador::worker
