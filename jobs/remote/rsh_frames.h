// Messages between `volador job-rsh`, which stands for ssh in a job, and its rank, over a Unix socket: a frame has the
// length of its content in 4 bytes (big endian), its kind in 1 byte, and the content.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/result.h"
#include "runtime/serialize/codec.h"

namespace volador::jobs {

// Name of the socket in VOLADOR_JOB_DIR.
inline constexpr const char* kRshSocket = "rsh.sock";

enum class RshFrameKind : uint8_t {
  // From job-rsh.
  kStart = 1,     // RshStart; first.
  kInput = 2,     // Standard input; at most kRshInputAhead bytes that kTaken has not confirmed.
  kInputEnd = 3,  // The standard input has ended.
  kSignal = 4,    // Decimal number of a signal for the command.
  // From the rank.
  kOutput = 5,   // Standard output.
  kError = 6,    // Standard error.
  kTaken = 7,    // Decimal number of bytes of the standard input that the command has taken.
  kUnknown = 8,  // The host is no node of the job; the nodes as text. Nothing follows.
  kExit = 9,     // Decimal exit code. Nothing follows.
};

inline constexpr size_t kRshInputAhead = size_t{512} << 10;
inline constexpr size_t kRshFrameBytes = size_t{4} << 20;  // Limit of the content; a command line may be long.

struct RshStart {
  std::string host;
  std::string command_line;  // For bash.
  bool input = false;        // Frames of the kinds kInput and kInputEnd follow.
};
VOLADOR_FIELDS(RshStart, host, command_line, input);

struct RshFrame {
  RshFrameKind kind = RshFrameKind::kStart;
  std::string content;
  bool operator==(const RshFrame&) const = default;
};

// `content`: at most kRshFrameBytes.
std::string rsh_frame(RshFrameKind kind, std::string_view content);

// Finds the frames in a stream of bytes.
class RshFrameReader {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  // No value: the next frame is not complete. kInvalidArgument: its kind is unknown or it is too long; the connection
  // is of no use any more.
  Result<std::optional<RshFrame>> next();

 private:
  std::string bytes_;
  size_t begin_ = 0;  // Bytes before it were returned.
};

}  // namespace volador::jobs
