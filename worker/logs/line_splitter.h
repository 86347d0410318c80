// Bytes of a program's output into lines that are safe to print, to store and to send. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace volador::worker {

inline constexpr size_t kLogLineBytesMax = 16
                                           << 10;  // A longer line is cut here, with " … [N bytes cut]" in its place.

class LineSplitter {
 public:
  // The lines that `bytes` complete, without line ends. "\r\n" is a line end; of what "\r" overwrites (progress bars)
  // the last part stays.
  [[nodiscard]] std::vector<std::string> feed(std::string_view bytes);
  // The line that was begun, if any: at the end of the output, or when it has waited long enough.
  [[nodiscard]] std::vector<std::string> flush();
  bool has_partial() const { return !partial_.empty() || cut_ > 0; }

 private:
  std::string take();

  std::string partial_;  // At most kLogLineBytesMax.
  size_t cut_ = 0;       // Bytes of this line that were left out.
};

// Control characters but tab become "\xNN", bytes that are not UTF-8 become U+FFFD. Colours (CSI … m) are taken out.
[[nodiscard]] std::string printable(std::string_view line);

// The last lines of a stream: at most 20 and 4 KiB, for the cause of a death.
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
