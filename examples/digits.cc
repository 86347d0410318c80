#include "examples/digits.h"

#include <zlib.h>

#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>

// Embeds examples/data/digits.csv.gz.
asm(".section .rodata\n"
    ".global digits_csv_gz\n"
    "digits_csv_gz:\n"
    ".incbin \"" DIGITS_FILE
    "\"\n"
    ".global digits_csv_gz_end\n"
    "digits_csv_gz_end:\n"
    ".byte 0\n"
    ".previous\n");
extern "C" const char digits_csv_gz[];
extern "C" const char digits_csv_gz_end[];

namespace digits {
namespace {

std::string unpack() {
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw std::runtime_error("digits: zlib does not start");
  std::string text(1 << 20, '\0');  // The data has 0.3 MB.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(digits_csv_gz));
  stream.avail_in = static_cast<uInt>(digits_csv_gz_end - digits_csv_gz);
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  const int ended = inflate(&stream, Z_FINISH);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  if (ended != Z_STREAM_END) throw std::runtime_error("digits: the data is damaged");
  return text;
}

}  // namespace

Split load() {
  const std::string text = unpack();
  std::vector<std::vector<int>> rows;
  for (const char* at = text.c_str(); *at != '\0';) {
    std::vector<int> row;
    while (*at != '\n' && *at != '\0') {
      char* end = nullptr;
      row.push_back(static_cast<int>(std::strtol(at, &end, 10)));
      at = *end == ',' ? end + 1 : end;
    }
    if (*at == '\n') ++at;
    if (row.size() == kSide * kSide + 1) rows.push_back(std::move(row));
  }
  // Fisher-Yates written out: std::shuffle may differ between standard libraries.
  std::mt19937 random(20260701);
  for (size_t i = rows.size() - 1; i > 0; --i) std::swap(rows[i], rows[random() % (i + 1)]);

  Split split;
  const size_t held_out = rows.size() * 15 / 100 + 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    Images& part = i < held_out ? split.test : i < 2 * held_out ? split.validation : split.train;
    for (size_t p = 0; p < kSide * kSide; ++p) part.pixels.push_back(static_cast<float>(rows[i][p]) / 16.0F);
    part.labels.push_back(rows[i].back());
  }
  return split;
}

}  // namespace digits
