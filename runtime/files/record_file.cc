#include "runtime/files/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "runtime/crc32c.h"
#include "runtime/paths.h"

namespace volador {
namespace {

constexpr std::string_view kRecordsMagic = "VLDREC01";
constexpr size_t kHeadBytes = 8;

void append_number(std::string& to, uint32_t number) {
  for (int byte = 0; byte < 4; ++byte) to += static_cast<char>(number >> (8 * byte) & 0xFF);
}

uint32_t number_at(const char* bytes) {
  uint32_t number = 0;
  for (int byte = 3; byte >= 0; --byte) number = number << 8 | static_cast<unsigned char>(bytes[byte]);
  return number;
}

bool write_all_at(int fd, std::string_view bytes, uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
    at += static_cast<uint64_t>(written);
  }
  return true;
}

}  // namespace

void append_record(std::string& to, std::string_view payload) {
  append_number(to, static_cast<uint32_t>(payload.size()));
  append_number(to, crc32c(payload));
  to += payload;
}

std::optional<std::string> next_record(std::istream& from) {
  std::array<char, kHeadBytes> head{};
  if (!from.read(head.data(), kHeadBytes)) return std::nullopt;
  const size_t size = number_at(head.data());
  if (size > kRecordBytesMax) return std::nullopt;
  std::string payload;
  constexpr size_t kPiece = size_t{1} << 20;  // A damaged length must not allocate more than the file contains.
  while (payload.size() < size) {
    const size_t before = payload.size();
    payload.resize(std::min(size, before + kPiece));
    if (!from.read(payload.data() + before, static_cast<std::streamsize>(payload.size() - before))) return std::nullopt;
  }
  if (crc32c(payload) != number_at(head.data() + 4)) return std::nullopt;
  return payload;
}

Result<RecordsRead> read_records(const std::filesystem::path& file,
                                 const std::function<void(std::string_view)>& visit) {
  std::error_code code;
  const auto size = std::filesystem::file_size(file, code);
  if (code) return make_error(file_error("read", file, code.value()));
  std::ifstream in(file, std::ios::binary);
  std::array<char, kRecordsMagic.size()> magic{};
  if (!in) return make_error(file_error("read", file, errno));
  if (!in.read(magic.data(), magic.size()))
    return RecordsRead{.bytes = 0, .torn = size > 0};  // Created and torn at once.
  if (std::string_view(magic.data(), magic.size()) != kRecordsMagic)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: not a file of records", file.string()));
  RecordsRead read{.bytes = kRecordsMagic.size()};
  while (const auto record = next_record(in)) {
    visit(*record);
    read.bytes += kHeadBytes + record->size();
  }
  read.torn = read.bytes < size;
  return read;
}

Result<uint64_t> write_records(const std::filesystem::path& file, uint64_t at, std::string_view records, bool sync) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return make_error(file_error("write", file, errno));
  const uint64_t begin = at;
  bool done = ftruncate(fd, static_cast<off_t>(at)) == 0;
  if (done && at == 0) {
    done = write_all_at(fd, kRecordsMagic, 0);
    at = kRecordsMagic.size();
  }
  done = done && write_all_at(fd, records, at) && (!sync || fdatasync(fd) == 0);
  const int error = errno;
  if (!done && ftruncate(fd, static_cast<off_t>(begin)) != 0)
    done = false;  // The rest is torn; the next write truncates it.
  close(fd);
  if (!done) return make_error(file_error("write", file, error));
  return at + records.size();
}

}  // namespace volador
