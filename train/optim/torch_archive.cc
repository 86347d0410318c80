#include "train/optim/torch_archive.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

namespace volador::train {
namespace {

static_assert(std::endian::native == std::endian::little, "records have the byte order of this machine");

constexpr std::string_view kFolder = "archive/";  // PyTorch's reader takes the folder of the first record.
constexpr size_t kAlignment = 64;
constexpr uint64_t kMost32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMost16 = std::numeric_limits<uint16_t>::max();

constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr size_t kExtraHead = 4;          // Id and size of an extra field.
constexpr size_t kSizes64 = 16;           // Two sizes.
constexpr uint16_t kZip64 = 1;            // Id of the extra field with 64-bit sizes.
constexpr uint16_t kPadding = 0x4246;     // "FB", as PyTorch writes it.
constexpr uint16_t kVersion64 = 45;       // Format with 64-bit sizes.
constexpr uint16_t kVersion = 20;         // Otherwise.
constexpr uint16_t kDate = (1 << 5) | 1;  // 1980-01-01: equal states give equal bytes.

bool is_large(uint64_t size) { return size >= kMost32; }

class Fields {
 public:
  Fields& two(uint64_t value) { return number(value, 2); }
  Fields& four(uint64_t value) { return number(value, 4); }
  Fields& eight(uint64_t value) { return number(value, 8); }
  Fields& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  Fields& zeros(size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Fields& number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

uint32_t checksum(std::string_view data) {
  return static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

// Bytes of the 64-bit sizes, and of the offset, in the central directory; 0: they fit in 32 bits.
size_t central_extra(uint64_t size, uint64_t offset) {
  if (!is_large(size) && !is_large(offset)) return 0;
  return kExtraHead + (is_large(size) ? kSizes64 : 0) + (is_large(offset) ? 8 : 0);
}

}  // namespace

TorchArchive::TorchArchive(std::vector<ArchiveRecord> records) {
  records.push_back({"version", "3\n"});
  records.push_back({"byteorder", "little"});
  uint64_t at = 0;
  for (ArchiveRecord& record : records) {
    record.name.insert(0, kFolder);
    Entry entry{.record = std::move(record), .offset = at};
    const uint64_t size = entry.record.data.size();
    at += kLocalBytes + entry.record.name.size() + (is_large(size) ? kExtraHead + kSizes64 : 0) + kExtraHead;
    entry.padding = (kAlignment - at % kAlignment) % kAlignment;
    at += entry.padding + size;
    entries_.push_back(std::move(entry));
  }
  directory_ = at;
  for (const Entry& entry : entries_)
    at += kCentralBytes + entry.record.name.size() + central_extra(entry.record.data.size(), entry.offset);
  const bool is_large_archive = is_large(at) || entries_.size() >= kMost16;
  size_ = at + (is_large_archive ? kEnd64Bytes + kLocator64Bytes : 0) + kEndBytes;
}

void TorchArchive::write(const std::function<void(std::string_view piece)>& sink) const {
  std::vector<uint32_t> checksums;
  for (const Entry& entry : entries_) {
    checksums.push_back(checksum(entry.record.data));
    sink(header_of(entry, checksums.back()));
    if (!entry.record.data.empty()) sink(entry.record.data);
  }
  sink(directory_of(checksums));
}

std::vector<ArchivePlace> TorchArchive::places() const {
  std::vector<ArchivePlace> places;
  for (const Entry& entry : entries_) places.push_back({entry.record.data, entry.offset + header_of(entry, 0).size()});
  return places;
}

void TorchArchive::write_around(std::span<char> out) const {
  std::vector<uint32_t> checksums;
  const std::vector<ArchivePlace> places = this->places();
  for (size_t i = 0; i < entries_.size(); ++i) {
    checksums.push_back(checksum({out.data() + places[i].offset, places[i].data.size()}));
    const std::string header = header_of(entries_[i], checksums.back());
    std::memcpy(out.data() + entries_[i].offset, header.data(), header.size());
  }
  const std::string directory = directory_of(checksums);
  std::memcpy(out.data() + directory_, directory.data(), directory.size());
}

std::string TorchArchive::header_of(const Entry& entry, uint32_t checksum) {
  const std::string& name = entry.record.name;
  const uint64_t size = entry.record.data.size();
  Fields header;
  header.four(0x04034b50).two(is_large(size) ? kVersion64 : kVersion).two(0).two(0).two(0).two(kDate);
  header.four(checksum).four(std::min(size, kMost32)).four(std::min(size, kMost32));
  header.two(name.size()).two((is_large(size) ? kExtraHead + kSizes64 : 0) + kExtraHead + entry.padding).text(name);
  if (is_large(size)) header.two(kZip64).two(kSizes64).eight(size).eight(size);
  header.two(kPadding).two(entry.padding).zeros(entry.padding);
  return header.bytes();
}

std::string TorchArchive::directory_of(const std::vector<uint32_t>& checksums) const {
  Fields directory;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const uint64_t size = entry.record.data.size();
    const size_t extra = central_extra(size, entry.offset);
    const uint16_t version = extra > 0 ? kVersion64 : kVersion;
    directory.four(0x02014b50).two(version).two(version).two(0).two(0).two(0).two(kDate);
    directory.four(checksums[i]).four(std::min(size, kMost32)).four(std::min(size, kMost32));
    directory.two(entry.record.name.size()).two(extra).two(0).two(0).two(0).four(0);
    directory.four(std::min(entry.offset, kMost32)).text(entry.record.name);
    if (extra == 0) continue;
    directory.two(kZip64).two(extra - kExtraHead);
    if (is_large(size)) directory.eight(size).eight(size);
    if (is_large(entry.offset)) directory.eight(entry.offset);
  }
  const uint64_t count = entries_.size(), bytes = directory.bytes().size();
  if (is_large(directory_ + bytes) || count >= kMost16) {
    const uint64_t end = directory_ + bytes;
    directory.four(0x06064b50).eight(kEnd64Bytes - 12).two(kVersion64).two(kVersion64).four(0).four(0);
    directory.eight(count).eight(count).eight(bytes).eight(directory_);
    directory.four(0x07064b50).four(0).eight(end).four(1);
  }
  directory.four(0x06054b50).two(0).two(0).two(std::min(count, kMost16)).two(std::min(count, kMost16));
  directory.four(std::min(bytes, kMost32)).four(std::min(directory_, kMost32)).two(0);
  return directory.bytes();
}

}  // namespace volador::train
