// Hand-made checkpoint archives around any stream of entries.
#pragma once

#include <zstd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/security/digest.h"

namespace volador {

// Little-endian.
inline void append_number(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// kind 1: a directory; 2: a file whose header claims this many bytes.
inline std::string archive_entry(uint8_t kind, const std::string& name, const std::string& contents, uint64_t claimed) {
  std::string out;
  append_number(out, kind, 1);
  append_number(out, 0644, 2);
  append_number(out, name.size(), 2);
  append_number(out, claimed, 8);
  return out + name + contents;
}

inline std::string archive_end(uint64_t entries, uint64_t bytes) {
  std::string out;
  append_number(out, 0, 1);
  append_number(out, entries, 8);
  append_number(out, bytes, 8);
  return out;
}

// Generates matching compression and checksum.
inline std::string forged_archive(std::string_view stream) {
  std::string compressed(ZSTD_compressBound(stream.size()), '\0');
  compressed.resize(ZSTD_compress(compressed.data(), compressed.size(), stream.data(), stream.size(), 1));
  std::string bytes = "VLDARC01" + compressed;
  bytes += security::raw(security::sha256(bytes));
  return bytes;
}

}  // namespace volador
