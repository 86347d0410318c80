#include "jobs/remote/rsh_frames.h"

#include <fmt/format.h>

namespace volador::jobs {

namespace {

constexpr size_t kHeaderBytes = 5;

}  // namespace

std::string rsh_frame(RshFrameKind kind, std::string_view content) {
  std::string out;
  out.reserve(kHeaderBytes + content.size());
  const auto size = static_cast<uint32_t>(content.size());
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>((size >> shift) & 0xff);
  out += static_cast<char>(kind);
  out += content;
  return out;
}

Result<std::optional<RshFrame>> RshFrameReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(begin_);
  if (rest.size() < kHeaderBytes) {
    bytes_.erase(0, begin_);
    begin_ = 0;
    return std::nullopt;
  }
  size_t size = 0;
  for (size_t i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(rest[i]);
  const auto kind = static_cast<unsigned char>(rest[4]);
  if (kind < static_cast<unsigned char>(RshFrameKind::kStart) ||
      kind > static_cast<unsigned char>(RshFrameKind::kExit) || size > kRshFrameBytes) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("a frame of kind {} with {} bytes; expected kinds 1 to 9 and at most {} bytes", kind,
                                  size, kRshFrameBytes));
  }
  if (rest.size() < kHeaderBytes + size) {
    bytes_.erase(0, begin_);
    begin_ = 0;
    return std::nullopt;
  }
  RshFrame frame{.kind = static_cast<RshFrameKind>(kind), .content = std::string(rest.substr(kHeaderBytes, size))};
  begin_ += kHeaderBytes + size;
  return frame;
}

}  // namespace volador::jobs
