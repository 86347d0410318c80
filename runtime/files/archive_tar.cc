#include "runtime/files/archive_tar.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <string_view>

#include "runtime/files/durable_file.h"
#include "runtime/files/tar_format.h"
#include "runtime/security/digest.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kArchiveMagic = "VLDARC01";
constexpr size_t kChecksumBytes = 32;
constexpr int kWindowLog = 23;      // As in directory_archive.cc.
constexpr size_t kFixedBytes = 12;  // Mode, path length and size.
constexpr size_t kTrailerBytes = 16;
constexpr uint8_t kDirectoryEntry = 1, kFileEntry = 2;

uint64_t number_of(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

bool is_plain(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos) return false;
  const fs::path parts{std::string(path)};
  return std::none_of(parts.begin(), parts.end(), [](const fs::path& part) { return part == ".."; });
}

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

class ArchiveTar::Impl {
 public:
  Impl(FileHandle file, fs::path path, int64_t left)
      : file_(std::move(file)),
        path_(std::move(path)),
        left_(left),
        context_(ZSTD_createDCtx()),
        in_(ZSTD_DStreamInSize(), '\0'),
        raw_(kPieceBytes, '\0') {
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kWindowLog);
  }

  Result<void> start() {
    std::string magic(kArchiveMagic.size(), '\0');
    auto count = read(magic.data(), magic.size());
    if (!count) return make_error(count.error());
    if (magic != kArchiveMagic) return refused("not an archive: it does not start with VLDARC01");
    return {};
  }

  Result<std::string> next() {
    std::string out;
    while (out.empty() && !done_) VOLADOR_TRY(step(out));
    return out;
  }

 private:
  enum class State : uint8_t { kKind, kFixed, kPath, kContent, kTrailer, kEnded };

  tl::unexpected<Error> refused(std::string_view why) const {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path_.string(), why));
  }

  // Reads up to the checksum at most.
  Result<size_t> read(char* to, size_t size) {
    auto count = read_some(file_.get(), to, std::min<size_t>(size, static_cast<size_t>(left_)), path_);
    if (!count) return count;
    left_ -= static_cast<int64_t>(*count);
    hash_.update({to, *count});
    return count;
  }

  Result<void> step(std::string& out) {
    if (pending_.pos == pending_.size && left_ > 0) {
      auto count = read(in_.data(), in_.size());
      if (!count) return make_error(count.error());
      pending_ = {in_.data(), *count, 0};
    }
    ZSTD_outBuffer target{raw_.data(), raw_.size(), 0};
    const size_t before = pending_.pos;
    const size_t more = ZSTD_decompressStream(context_.get(), &target, &pending_);
    if (ZSTD_isError(more) != 0) return refused(fmt::format("corrupt: {}", ZSTD_getErrorName(more)));
    VOLADOR_TRY(take({raw_.data(), target.pos}, out));
    if (more == 0) return finish();
    if (target.pos == 0 && pending_.pos == before && left_ == 0)
      return refused("truncated: its compressed stream has no end");
    return {};
  }

  Result<void> finish() {
    done_ = true;
    security::Digest expected{};
    auto count = read_some(file_.get(), reinterpret_cast<char*>(expected.data()), expected.size(), path_);
    if (!count) return make_error(count.error());
    const bool whole =
        state_ == State::kEnded && left_ == 0 && pending_.pos == pending_.size && *count == expected.size();
    if (!whole || hash_.finish() != expected) return refused("torn or corrupt: its contents do not fit its checksum");
    return {};
  }

  Result<void> take(std::string_view bytes, std::string& out) {
    while (!bytes.empty()) {
      if (state_ == State::kContent) {
        const size_t part = static_cast<size_t>(std::min<uint64_t>(content_, bytes.size()));
        out += bytes.substr(0, part);
        bytes.remove_prefix(part);
        content_ -= part;
        if (content_ == 0) end_content(out);
        continue;
      }
      const size_t part = std::min(wanted_ - held_.size(), bytes.size());
      held_ += bytes.substr(0, part);
      bytes.remove_prefix(part);
      if (held_.size() < wanted_) return {};
      const std::string field = std::exchange(held_, {});
      VOLADOR_TRY(on_field(field, out));
    }
    return {};
  }

  void expect(State state, size_t bytes) {
    state_ = state;
    wanted_ = bytes;
  }

  void end_content(std::string& out) {
    append_tar_padding(out, size_);
    expect(State::kKind, 1);
  }

  Result<void> on_field(const std::string& field, std::string& out) {
    switch (state_) {
      case State::kKind:
        kind_ = static_cast<uint8_t>(field[0]);
        if (kind_ > kFileEntry) return refused("corrupt: an entry of an unknown kind");
        if (kind_ == 0) {
          expect(State::kTrailer, kTrailerBytes);
        } else {
          expect(State::kFixed, kFixedBytes);
        }
        return {};
      case State::kFixed: {
        mode_ = number_of(field.substr(0, 2));
        size_ = number_of(field.substr(4, 8));
        const size_t length = number_of(field.substr(2, 2));
        if (length == 0) return refused("corrupt: an entry without a path");
        expect(State::kPath, length);
        return {};
      }
      case State::kPath:
        if (!is_plain(field)) return refused(fmt::format("the path \"{}\" of an entry leads elsewhere", field));
        append_tar_header(out, field, mode_, size_, kind_ == kDirectoryEntry);
        content_ = kind_ == kFileEntry ? size_ : 0;
        expect(content_ > 0 ? State::kContent : State::kKind, 1);
        return {};
      case State::kTrailer:
        expect(State::kEnded, 1);
        return {};
      case State::kContent:
      case State::kEnded:
        break;
    }
    return refused("corrupt: data after its last entry");
  }

  FileHandle file_;
  const fs::path path_;
  int64_t left_;  // Bytes left before the checksum.
  security::Sha256 hash_;
  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  std::string in_, raw_;
  ZSTD_inBuffer pending_{nullptr, 0, 0};
  State state_ = State::kKind;
  size_t wanted_ = 1;
  std::string held_;  // Data of the current field.
  uint8_t kind_ = 0;
  uint64_t mode_ = 0, size_ = 0, content_ = 0;
  bool done_ = false;
};

ArchiveTar::ArchiveTar() = default;
ArchiveTar::~ArchiveTar() = default;
ArchiveTar::ArchiveTar(ArchiveTar&&) noexcept = default;
ArchiveTar& ArchiveTar::operator=(ArchiveTar&&) noexcept = default;

Result<std::unique_ptr<ArchiveTar::Impl>> ArchiveTar::open_one(const fs::path& archive) {
  auto file = FileHandle::open(archive, O_RDONLY);
  if (!file) return make_error(file.error());
  struct stat info {};
  if (::fstat(file->get(), &info) != 0) return make_error(file_error("read", archive, errno));
  if (!S_ISREG(info.st_mode) || static_cast<size_t>(info.st_size) < kArchiveMagic.size() + kChecksumBytes) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: no archive", archive.string()));
  }
  auto impl = std::make_unique<Impl>(std::move(*file), archive, info.st_size - static_cast<int64_t>(kChecksumBytes));
  VOLADOR_TRY(impl->start());
  return impl;
}

Result<ArchiveTar> ArchiveTar::open(const std::vector<fs::path>& archives) {
  ArchiveTar tar;
  tar.waiting_.assign(archives.rbegin(), archives.rend());
  auto first = open_one(tar.waiting_.back());
  if (!first) return make_error(first.error());
  tar.impl_ = std::move(*first);
  tar.waiting_.pop_back();
  return tar;
}

Result<std::string> ArchiveTar::next() {
  while (impl_ != nullptr) {
    auto bytes = impl_->next();
    if (!bytes || !bytes->empty()) return bytes;
    impl_.reset();
    if (waiting_.empty()) return tar_end();
    auto following = open_one(waiting_.back());
    if (!following) return make_error(following.error());
    impl_ = std::move(*following);
    waiting_.pop_back();
  }
  return std::string();
}

}  // namespace volador
