#include "worker/logs/line_splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/quantities.h"
#include "runtime/utf8.h"

namespace volador::worker {
namespace {

// Returns the length of a color sequence "ESC [ digits ; … m" at `at`, otherwise 0.
size_t colour_length(std::string_view text, size_t at) {
  if (at + 2 >= text.size() || text[at] != '\x1b' || text[at + 1] != '[') return 0;
  size_t end = at + 2;
  while (end < text.size() && end - at < 32 && ((text[end] >= '0' && text[end] <= '9') || text[end] == ';')) ++end;
  return end < text.size() && text[end] == 'm' ? end - at + 1 : 0;
}

}  // namespace

std::string printable(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (size_t i = 0; i < line.size();) {
    const auto c = static_cast<unsigned char>(line[i]);
    if (c == 0x1b) {
      if (const size_t colour = colour_length(line, i); colour > 0) {
        i += colour;
        continue;
      }
    }
    if ((c < 0x20 && c != '\t') || c == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", c);
      ++i;
      continue;
    }
    const size_t length = utf8_sequence(line, i);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
      continue;
    }
    out.append(line.substr(i, length));
    i += length;
  }
  return out;
}

std::string LineSplitter::take() {
  std::string_view text = partial_;
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  if (const size_t overwritten = text.rfind('\r'); overwritten != std::string_view::npos)
    text.remove_prefix(overwritten + 1);
  std::string line = printable(text);
  if (cut_ > 0) line += fmt::format(" … [{} cut]", counted(cut_, "byte"));
  partial_.clear();
  cut_ = 0;
  return line;
}

std::vector<std::string> LineSplitter::feed(std::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    const size_t kept = std::min(part.size(), kLogLineBytesMax - partial_.size());
    partial_.append(part.substr(0, kept));
    cut_ += part.size() - kept;
    if (end == std::string_view::npos) break;
    lines.push_back(take());
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::string> LineSplitter::flush() {
  if (!has_partial()) return {};
  return {take()};
}

void LineTail::add(const std::string& line) {
  lines_.push_back(line.size() <= kBytesMax ? line : line.substr(0, kBytesMax));
  if (lines_.size() > kLinesMax) lines_.erase(lines_.begin());
}

std::string LineTail::text() const {
  size_t first = lines_.size();
  size_t bytes = 0;
  while (first > 0 && bytes + lines_[first - 1].size() + 1 <= kBytesMax + 1) bytes += lines_[--first].size() + 1;
  std::string out;
  for (size_t i = first; i < lines_.size(); ++i) {
    if (i > first) out += '\n';
    out += lines_[i];
  }
  return out;
}

}  // namespace volador::worker
