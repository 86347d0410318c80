// Archives of checkpoints: whatever stands in them, unpacking gives a directory or an error, writes nothing beside its
// target, and leaves nothing behind after an error. The input is the stream within; compression and checksum are made
// to fit, so that entries are reached.
#include "runtime/files/directory_archive.h"

#include <stdlib.h>
#include <zstd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/security/digest.h"
#include "tests/fuzz/driver.h"

namespace {

namespace fs = std::filesystem;
using namespace volador;

// Removed at the end of the process.
struct Scratch {
  Scratch() {
    std::string name = (fs::temp_directory_path() / "volador-fuzz-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) abort();
    path = name;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

std::string archive_of(std::string_view stream) {
  std::string compressed(ZSTD_compressBound(stream.size()), '\0');
  compressed.resize(ZSTD_compress(compressed.data(), compressed.size(), stream.data(), stream.size(), 1));
  std::string bytes = "VLDARC01" + compressed;
  bytes += security::raw(security::sha256(bytes));
  return bytes;
}

void number(std::string& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}
std::string entry(uint8_t kind, const std::string& name, const std::string& contents) {
  std::string out;
  number(out, kind, 1);
  number(out, 0644, 2);
  number(out, name.size(), 2);
  number(out, contents.size(), 8);
  return out + name + contents;
}
std::string end_entry(uint64_t entries, uint64_t bytes) {
  std::string out;
  number(out, 0, 1);
  number(out, entries, 8);
  number(out, bytes, 8);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Scratch scratch;
  const fs::path archive = scratch.path / "archive.vla";
  const fs::path target = scratch.path / "target";
  std::ofstream(archive, std::ios::binary) << archive_of({reinterpret_cast<const char*>(data), size});
  const auto unpacked =
      unpack_archive(archive, target, {.content_bytes_max = 1 << 20, .entries_max = 50}, Durability::kProcess);
  if (unpacked.has_value() != fs::exists(target)) abort();
  std::error_code ignored;
  fs::remove_all(target, ignored);
  for (const auto& left : fs::directory_iterator(scratch.path)) {
    if (left.path() != archive) abort();
  }
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  return {end_entry(0, 0), entry(2, "weights", std::string(300, 'w')) + end_entry(1, 300),
          entry(1, "deep", "") + entry(1, "deep/er", "") + entry(2, "deep/er/file", "text") + end_entry(3, 4),
          entry(2, "../outside", "x") + end_entry(1, 1), entry(2, "/etc/outside", "x") + end_entry(1, 1)};
}
