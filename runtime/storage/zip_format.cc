#include "runtime/storage/zip_format.h"

#include <array>

namespace volador::storage {
namespace {

constexpr uint16_t kNeedsZip64 = 45;                      // Version 4.5 of the format.
constexpr uint16_t kMadeOnUnix = (3 << 8) | kNeedsZip64;  // So that modes are read.
constexpr uint16_t kFlags = (1 << 3) | (1 << 11);         // Sizes follow the data; names are UTF-8.
constexpr uint32_t kDate = (0 << 16 | 1 << 5 | 1) << 16;  // 1980-01-01: the storage keeps no times.
constexpr uint16_t kStored = 0;
constexpr uint32_t kIn64 = 0xffffffff;
constexpr uint16_t kCountIn64 = 0xffff;

void put16(std::string& out, uint16_t value) {
  out += static_cast<char>(value & 0xff);
  out += static_cast<char>(value >> 8);
}
void put32(std::string& out, uint32_t value) {
  put16(out, static_cast<uint16_t>(value & 0xffff));
  put16(out, static_cast<uint16_t>(value >> 16));
}
void put64(std::string& out, uint64_t value) {
  put32(out, static_cast<uint32_t>(value & 0xffffffff));
  put32(out, static_cast<uint32_t>(value >> 32));
}

constexpr size_t kSlices = 8;
using CrcTables = std::array<std::array<uint32_t, 256>, kSlices>;
constexpr CrcTables make_tables() {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320u : 0u);
    tables[0][byte] = value;
  }
  for (size_t slice = 1; slice < kSlices; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr CrcTables kTables = make_tables();

}  // namespace

// Eight bytes for each step.
uint32_t zip_crc32(uint32_t before, std::string_view bytes) {
  uint32_t crc = ~before;
  const auto byte = [&](size_t at) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[at])); };
  size_t at = 0;
  for (; at + kSlices <= bytes.size(); at += kSlices) {
    const uint32_t low = crc ^ (byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24);
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][byte(at + 4)] ^ kTables[2][byte(at + 5)] ^ kTables[1][byte(at + 6)] ^
          kTables[0][byte(at + 7)];
  }
  for (; at < bytes.size(); ++at) crc = (crc >> 8) ^ kTables[0][(crc ^ byte(at)) & 0xff];
  return ~crc;
}

// The sizes in front of the data are not used, but a 64-bit record there says how wide those behind the data are.
std::string ZipFormat::begin_entry(std::string_view name, unsigned mode, uint64_t bytes) {
  entries_.push_back({std::string(name), mode, 0, bytes, written_});
  std::string out;
  put32(out, 0x04034b50);
  put16(out, kNeedsZip64);
  put16(out, kFlags);
  put16(out, kStored);
  put32(out, kDate);
  put32(out, 0);
  put32(out, kIn64);
  put32(out, kIn64);
  put16(out, static_cast<uint16_t>(name.size()));
  put16(out, 20);
  out += name;
  put16(out, 1);
  put16(out, 16);
  put64(out, 0);
  put64(out, 0);
  written_ += out.size() + bytes;
  return out;
}

std::string ZipFormat::end_entry(uint32_t crc, uint64_t bytes) {
  Entry& entry = entries_.back();
  written_ += bytes - entry.bytes;
  entry.crc = crc;
  entry.bytes = bytes;
  std::string out;
  put32(out, 0x08074b50);
  put32(out, crc);
  put64(out, bytes);
  put64(out, bytes);
  written_ += out.size();
  return out;
}

std::string ZipFormat::finish() {
  std::string out;
  for (const Entry& entry : entries_) {
    const bool directory = entry.name.ends_with('/');
    put32(out, 0x02014b50);
    put16(out, kMadeOnUnix);
    put16(out, kNeedsZip64);
    put16(out, kFlags);
    put16(out, kStored);
    put32(out, kDate);
    put32(out, entry.crc);
    put32(out, kIn64);
    put32(out, kIn64);
    put16(out, static_cast<uint16_t>(entry.name.size()));
    put16(out, 28);
    put16(out, 0);  // Comment.
    put16(out, 0);  // Disk.
    put16(out, 0);  // Internal attributes.
    put32(out, ((directory ? 0040000u : 0100000u) | (entry.mode & 0777)) << 16 | (directory ? 0x10u : 0u));
    put32(out, kIn64);
    out += entry.name;
    put16(out, 1);
    put16(out, 24);
    put64(out, entry.bytes);
    put64(out, entry.bytes);
    put64(out, entry.offset);
  }
  const uint64_t directory_bytes = out.size(), end64 = written_ + directory_bytes;
  put32(out, 0x06064b50);
  put64(out, 44);
  put16(out, kMadeOnUnix);
  put16(out, kNeedsZip64);
  put32(out, 0);
  put32(out, 0);
  put64(out, entries_.size());
  put64(out, entries_.size());
  put64(out, directory_bytes);
  put64(out, written_);
  put32(out, 0x07064b50);
  put32(out, 0);
  put64(out, end64);
  put32(out, 1);
  put32(out, 0x06054b50);
  put16(out, 0);
  put16(out, 0);
  put16(out, kCountIn64);
  put16(out, kCountIn64);
  put32(out, kIn64);
  put32(out, kIn64);
  put16(out, 0);
  return out;
}

}  // namespace volador::storage
