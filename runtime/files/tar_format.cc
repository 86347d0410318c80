#include "runtime/files/tar_format.h"

#include <fmt/format.h>

namespace volador {
namespace {

// Returns a tar header block (POSIX ustar; sizes from 8 GiB on in base 256, as GNU tar writes them).
std::string tar_block(std::string_view path, uint64_t mode, uint64_t size, char type) {
  std::string block(kTarBlockBytes, '\0');
  const auto put = [&block](size_t at, std::string_view text) { text.copy(block.data() + at, text.size()); };
  put(0, path.substr(0, 100));
  put(100, fmt::format("{:07o}", mode & 07777));
  put(108, "0000000");
  put(116, "0000000");
  if (size < uint64_t{1} << 33) {
    put(124, fmt::format("{:011o}", size));
  } else {
    block[124] = static_cast<char>(0x80);
    for (size_t i = 0; i < 8; ++i) block[124 + 11 - i] = static_cast<char>(size >> (8 * i));
  }
  put(136, "00000000000");
  put(148, "        ");
  block[156] = type;
  put(257, "ustar  ");  // GNU magic, required for long names.
  uint64_t sum = 0;
  for (const char c : block) sum += static_cast<uint8_t>(c);
  put(148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  return block;
}

}  // namespace

void append_tar_padding(std::string& out, uint64_t size) {
  out.append(static_cast<size_t>((kTarBlockBytes - size % kTarBlockBytes) % kTarBlockBytes), '\0');
}

void append_tar_header(std::string& out, const std::string& path, uint64_t mode, uint64_t size, bool directory) {
  const std::string name = directory ? path + "/" : path;
  if (name.size() > 100) {  // GNU long name: a separate entry precedes the file.
    out += tar_block("././@LongLink", 0644, name.size() + 1, 'L');
    out += name;
    out += '\0';
    append_tar_padding(out, name.size() + 1);
  }
  out += tar_block(name, mode, directory ? 0 : size, directory ? '5' : '0');
}

std::string tar_end() { return std::string(2 * kTarBlockBytes, '\0'); }

}  // namespace volador
