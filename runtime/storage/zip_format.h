// Records of zip files whose entries are stored without compression and read once: checksums and sizes follow the data.
// With the 64-bit records that sizes from 4 GiB on need. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace volador::storage {

// CRC-32 as in zip files; `before` is that of the preceding bytes, 0 at the start.
uint32_t zip_crc32(uint32_t before, std::string_view bytes);

class ZipFormat {
 public:
  // The header of the next entry; its bytes follow, then end_entry(). A name that ends in a slash is a directory.
  std::string begin_entry(std::string_view name, unsigned mode, uint64_t bytes);
  // What follows the bytes of the entry, which are counted and summed by the caller.
  std::string end_entry(uint32_t crc, uint64_t bytes);
  // The directory at the end of the file.
  std::string finish();

 private:
  struct Entry {
    std::string name;
    unsigned mode = 0;
    uint32_t crc = 0;
    uint64_t bytes = 0, offset = 0;
  };
  std::vector<Entry> entries_;
  uint64_t written_ = 0;
};

}  // namespace volador::storage
