#include "runtime/storage/archive_stream.h"

#include <fmt/format.h>

#include <deque>

#include "runtime/files/tar_format.h"
#include "runtime/security/digest.h"
#include "runtime/storage/zip_format.h"

namespace volador::storage {
namespace {

constexpr unsigned kDirectoryMode = 0755;
constexpr size_t kAhead = 2;  // Files that are opened before they are due.

class ArchiveStream final : public FilePieces {
 public:
  using Open = std::function<Result<std::unique_ptr<FilePieces>>(const ManifestFile&)>;
  ArchiveStream(Manifest manifest, bool zip, Open open)
      : manifest_(std::move(manifest)), zip_(zip), open_(std::move(open)) {}

  Result<std::string> next() override {
    std::string out;
    while (out.empty() && !ended_) VOLADOR_TRY(step(out));
    return out;
  }

 private:
  Result<void> step(std::string& out) {
    if (directory_ < manifest_.directories.size()) {
      const std::string& path = manifest_.directories[directory_++];
      if (!zip_) {
        append_tar_header(out, path, kDirectoryMode, 0, true);
      } else {
        out += format_.begin_entry(path + "/", kDirectoryMode, 0);
        out += format_.end_entry(0, 0);
      }
      return {};
    }
    if (file_ == manifest_.files.size()) {
      ended_ = true;
      out += zip_ ? format_.finish() : tar_end();
      return {};
    }
    const ManifestFile& file = manifest_.files[file_];
    if (!begun_) return begin(file, out);
    auto piece = opened_.front()->next();
    if (!piece) return make_error(piece.error());
    if (piece->empty()) return end(file, out);
    read_ += static_cast<int64_t>(piece->size());
    if (read_ > file.bytes) return differs(file);
    hash_.update(*piece);
    if (zip_) crc_ = zip_crc32(crc_, *piece);
    out = std::move(*piece);
    return {};
  }

  Result<void> begin(const ManifestFile& file, std::string& out) {
    while (opened_.size() < kAhead + 1 && file_ + opened_.size() < manifest_.files.size()) {
      auto pieces = open_(manifest_.files[file_ + opened_.size()]);
      if (!pieces) return make_error(pieces.error());
      opened_.push_back(std::move(*pieces));
    }
    const auto bytes = static_cast<uint64_t>(file.bytes);
    if (zip_) {
      out += format_.begin_entry(file.path, file.mode, bytes);
    } else {
      append_tar_header(out, file.path, file.mode, bytes, false);
    }
    begun_ = true;
    read_ = 0;
    crc_ = 0;
    hash_ = security::Sha256();
    return {};
  }

  Result<void> end(const ManifestFile& file, std::string& out) {
    if (read_ != file.bytes || security::hex(hash_.finish()) != file.sha256) return differs(file);
    if (zip_) {
      out += format_.end_entry(crc_, static_cast<uint64_t>(read_));
    } else {
      append_tar_padding(out, static_cast<uint64_t>(read_));
    }
    opened_.pop_front();
    begun_ = false;
    ++file_;
    return {};
  }

  static tl::unexpected<Error> differs(const ManifestFile& file) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("{}: it has other contents than the manifest names; read the archive again", file.path));
  }

  const Manifest manifest_;
  const bool zip_;
  const Open open_;
  ZipFormat format_;
  std::deque<std::unique_ptr<FilePieces>> opened_;  // The first one is that of file_.
  size_t directory_ = 0, file_ = 0;
  bool begun_ = false, ended_ = false;
  int64_t read_ = 0;
  uint32_t crc_ = 0;
  security::Sha256 hash_;
};

}  // namespace

std::unique_ptr<FilePieces> stream_archive(Manifest manifest, bool zip, ArchiveStream::Open open) {
  return std::make_unique<ArchiveStream>(std::move(manifest), zip, std::move(open));
}

}  // namespace volador::storage
