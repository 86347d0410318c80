// The zip archives that torch.save writes: records are stored without compression, and their data begin at multiples of
// 64 bytes. Format: APPNOTE.TXT of PKWARE 6.3, and caffe2/serialize/inline_container.h of PyTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace volador::train {

// One file of an archive, such as "data/3".
struct ArchiveRecord {
  std::string name;
  std::string_view data;  // Must stay unchanged while the archive is written.
};

// Where the data of a record are in an archive.
struct ArchivePlace {
  std::string_view data;
  size_t offset = 0;
};

// An archive of a size that is known before anything is written.
class TorchArchive {
 public:
  // The records in their order; those that PyTorch's reader requires besides ("version", "byteorder") are added.
  explicit TorchArchive(std::vector<ArchiveRecord> records);

  size_t size() const { return size_; }  // Bytes.
  // Passes the bytes of the archive to `sink`, in pieces and in their order. Reads each record twice.
  void write(const std::function<void(std::string_view piece)>& sink) const;

  // The same in two parts: places of the data of the records, and the rest of the archive. `out` has size() bytes, and
  // contains the data of all records already, of which it gets the checksums.
  std::vector<ArchivePlace> places() const;
  void write_around(std::span<char> out) const;

 private:
  struct Entry {
    ArchiveRecord record;
    uint64_t offset = 0;  // Place of its local header.
    size_t padding = 0;   // Bytes of the extra field that aligns the data.
  };
  static std::string header_of(const Entry& entry, uint32_t checksum);
  std::string directory_of(const std::vector<uint32_t>& checksums) const;

  std::vector<Entry> entries_;
  uint64_t directory_ = 0;  // Offset of the central directory.
  size_t size_ = 0;
};

}  // namespace volador::train
