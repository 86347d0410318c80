// Archives of checkpoints: for any contents, unpacking gives a directory or an error, writes nothing outside its
// target, and leaves nothing behind after an error. The input is the inner stream; compression and checksum are
// generated to match, so that entries are reached.
#include "runtime/files/directory_archive.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/driver.h"
#include "tests/runtime/files/forged_archive.h"
#include "tests/temporary_directory.h"

namespace {

namespace fs = std::filesystem;
using namespace volador;

std::string entry(uint8_t kind, const std::string& name, const std::string& contents) {
  return archive_entry(kind, name, contents, contents.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryDirectory scratch;  // Kept until the end of the process.
  const fs::path archive = scratch.path() / "archive.vla";
  const fs::path target = scratch.path() / "target";
  std::ofstream(archive, std::ios::binary) << forged_archive({reinterpret_cast<const char*>(data), size});
  const auto unpacked =
      unpack_archive(archive, target, {.content_bytes_max = 1 << 20, .entries_max = 50}, Durability::kProcess);
  if (unpacked.has_value() != fs::exists(target)) abort();
  std::error_code ignored;
  fs::remove_all(target, ignored);
  for (const auto& left : fs::directory_iterator(scratch.path())) {
    if (left.path() != archive) abort();
  }
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  return {archive_end(0, 0), entry(2, "weights", std::string(300, 'w')) + archive_end(1, 300),
          entry(1, "deep", "") + entry(1, "deep/er", "") + entry(2, "deep/er/file", "text") + archive_end(3, 4),
          entry(2, "../outside", "x") + archive_end(1, 1), entry(2, "/etc/outside", "x") + archive_end(1, 1)};
}
