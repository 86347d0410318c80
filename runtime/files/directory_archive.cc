#include "runtime/files/directory_archive.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/files/durable_file.h"
#include "runtime/quantities.h"
#include "runtime/security/digest.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "VLDARC01";
constexpr size_t kDigestBytes = 32;
constexpr size_t kBufferBytes = 1 << 20;
constexpr int kCompressionLevel = 1;  // Model weights hardly compress: speed matters.
constexpr int kWindowLogMax = 23;     // Limits the reader's allocation for a malicious archive to 8 MiB.
constexpr uint8_t kEnd = 0;
constexpr uint8_t kDirectory = 1;
constexpr uint8_t kFile = 2;

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
}

uint64_t little_endian(const char* bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

tl::unexpected<Error> refused(const fs::path& path, std::string_view why) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path.string(), why));
}

struct FreeCompression {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// Writes compressed data to a file and computes its hash.
class ArchiveWriter {
 public:
  ArchiveWriter(int fd, fs::path path)
      : fd_(fd), path_(std::move(path)), context_(ZSTD_createCCtx()), out_(kBufferBytes, '\0') {
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kCompressionLevel);
  }

  Result<void> start() { return raw(kMagic); }
  Result<void> write(std::string_view bytes) { return compress(bytes, ZSTD_e_continue); }

  Result<std::string> finish() {
    VOLADOR_TRY(compress({}, ZSTD_e_end));
    const security::Digest digest = hash_.finish();
    VOLADOR_TRY(write_all(fd_, security::raw(digest), path_));
    bytes_ += static_cast<int64_t>(digest.size());
    return security::hex(digest);
  }

  int64_t bytes() const { return bytes_; }

 private:
  Result<void> raw(std::string_view bytes) {
    hash_.update(bytes);
    bytes_ += static_cast<int64_t>(bytes.size());
    return write_all(fd_, bytes, path_);
  }

  Result<void> compress(std::string_view bytes, ZSTD_EndDirective mode) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    while (true) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      const size_t left = ZSTD_compressStream2(context_.get(), &out, &in, mode);
      VOLADOR_CHECK(ZSTD_isError(left) == 0, ZSTD_getErrorName(left));
      if (out.pos > 0) VOLADOR_TRY(raw({out_.data(), out.pos}));
      if (mode == ZSTD_e_end ? left == 0 : in.pos == in.size) return {};
    }
  }

  int fd_;
  fs::path path_;
  std::unique_ptr<ZSTD_CCtx, FreeCompression> context_;
  std::string out_;
  security::Sha256 hash_;
  int64_t bytes_ = 0;
};

// Reads a file up to its trailing checksum and computes its hash.
class HashedFile {
 public:
  static Result<HashedFile> open(const fs::path& path) {
    auto handle = FileHandle::open(path, O_RDONLY);
    if (!handle) return make_error(handle.error());
    struct stat info {};
    if (fstat(handle->get(), &info) != 0) return make_error(file_error("read", path, errno));
    if (!S_ISREG(info.st_mode)) return refused(path, "expected a regular file");
    if (static_cast<size_t>(info.st_size) < kMagic.size() + kDigestBytes) {
      return refused(path, fmt::format("truncated: {} no archive", counted(info.st_size, "byte is", "bytes are")));
    }
    HashedFile file(std::move(*handle), path, info.st_size);
    std::string magic(kMagic.size(), '\0');
    auto count = file.read(magic.data(), magic.size());
    if (!count) return make_error(count.error());
    if (magic != kMagic) return refused(path, "not an archive of this version: it does not start with VLDARC01");
    return file;
  }

  // Returns 0 at the checksum.
  Result<size_t> read(char* out, size_t size) {
    auto count = read_some(handle_.get(), out, std::min<size_t>(size, static_cast<size_t>(left_)), path_);
    if (!count) return count;
    left_ -= static_cast<int64_t>(*count);
    hash_.update({out, *count});
    return count;
  }

  // Call after read() has returned 0.
  Result<std::string> check() {
    security::Digest expected{};
    auto count = read_some(handle_.get(), reinterpret_cast<char*>(expected.data()), expected.size(), path_);
    if (!count) return make_error(count.error());
    const security::Digest actual = hash_.finish();
    if (left_ != 0 || *count != expected.size() || actual != expected) {
      return refused(path_, fmt::format("torn or corrupt: its checksum says {}, its contents give {}",
                                        security::hex(expected), security::hex(actual)));
    }
    return security::hex(actual);
  }

  int64_t size() const { return size_; }

 private:
  HashedFile(FileHandle handle, fs::path path, int64_t size)
      : handle_(std::move(handle)),
        path_(std::move(path)),
        size_(size),
        left_(size - static_cast<int64_t>(kDigestBytes)) {}

  FileHandle handle_;
  fs::path path_;
  int64_t size_;
  int64_t left_;
  security::Sha256 hash_;
};

// Decompresses on demand.
class ArchiveReader {
 public:
  ArchiveReader(HashedFile file, fs::path path)
      : file_(std::move(file)), path_(std::move(path)), context_(ZSTD_createDCtx()), in_(ZSTD_DStreamInSize(), '\0') {
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kWindowLogMax);
  }

  // Reads exactly `size` bytes or fails.
  Result<void> read(char* out, size_t size) {
    ZSTD_outBuffer target{out, size, 0};
    while (target.pos < target.size) {
      if (ended_) return refused(path_, "truncated: its compressed stream ends within an entry");
      VOLADOR_TRY(decompress(target));
    }
    return {};
  }

  Result<uint64_t> number(size_t bytes) {
    char text[8];
    VOLADOR_TRY(read(text, bytes));
    return little_endian(text, bytes);
  }

  // After the end entry: checks that nothing follows and that the checksum matches.
  Result<std::string> finish() {
    while (!ended_) {
      char extra;
      ZSTD_outBuffer target{&extra, 1, 0};
      VOLADOR_TRY(decompress(target));
      if (target.pos > 0) return refused(path_, "corrupt: data after its last entry");
    }
    if (pending_.pos < pending_.size) return refused(path_, "corrupt: data after its compressed stream");
    char extra;
    auto count = file_.read(&extra, 1);
    if (!count) return make_error(count.error());
    if (*count > 0) return refused(path_, "corrupt: data after its compressed stream");
    return file_.check();
  }

  int64_t archive_bytes() const { return file_.size(); }

 private:
  Result<void> decompress(ZSTD_outBuffer& target) {
    if (pending_.pos == pending_.size) {
      auto count = file_.read(in_.data(), in_.size());
      if (!count) return make_error(count.error());
      pending_ = {in_.data(), *count, 0};
      exhausted_ = *count == 0;
    }
    const size_t before_in = pending_.pos;
    const size_t before_out = target.pos;
    const size_t left = ZSTD_decompressStream(context_.get(), &target, &pending_);
    if (ZSTD_isError(left) != 0) return refused(path_, fmt::format("corrupt: {}", ZSTD_getErrorName(left)));
    if (left == 0) ended_ = true;
    if (exhausted_ && left != 0 && pending_.pos == before_in && target.pos == before_out) {
      return refused(path_, "truncated: its compressed stream has no end");
    }
    return {};
  }

  HashedFile file_;
  fs::path path_;
  std::unique_ptr<ZSTD_DCtx, FreeCompression> context_;
  std::string in_;
  ZSTD_inBuffer pending_{nullptr, 0, 0};
  bool ended_ = false;
  bool exhausted_ = false;
};

Result<std::vector<ArchiveEntry>> list_tree(const fs::path& directory, const ArchiveLimits& limits) {
  std::error_code code;
  std::vector<ArchiveEntry> entries;
  fs::recursive_directory_iterator walk(directory, fs::directory_options::none, code);
  if (code) return make_error(file_error("read", directory, code.value()));
  for (const fs::recursive_directory_iterator end; walk != end;) {
    const fs::file_status status = walk->symlink_status(code);
    if (code) return make_error(file_error("read", walk->path(), code.value()));
    if (!fs::is_directory(status) && !fs::is_regular_file(status)) {
      return refused(walk->path(), "expected regular files and directories only; save copies instead of links");
    }
    ArchiveEntry entry{walk->path().lexically_relative(directory).string(), fs::is_directory(status)};
    if (entry.name.size() > limits.path_bytes_max) {
      return refused(walk->path(),
                     fmt::format("expected a path of at most {} bytes below the checkpoint", limits.path_bytes_max));
    }
    entries.push_back(std::move(entry));
    if (static_cast<int64_t>(entries.size()) > limits.entries_max) {
      return refused(directory, fmt::format("expected at most {} files and directories", limits.entries_max));
    }
    walk.increment(code);
    if (code) return make_error(file_error("read", directory, code.value()));
  }
  std::ranges::sort(entries, {},
                    &ArchiveEntry::name);  // A directory's name is a prefix of its entries' names and sorts first.
  return entries;
}

std::string entry_header(uint8_t kind, unsigned mode, uint64_t size, std::string_view name) {
  std::string header;
  put(header, kind);
  put(header, static_cast<uint16_t>(mode & 0777));
  put(header, static_cast<uint16_t>(name.size()));
  put(header, size);
  header += name;
  return header;
}

Result<int64_t> pack_file(ArchiveWriter& writer, const fs::path& path, const std::string& name, std::string& buffer,
                          int64_t bytes_left) {
  auto handle = FileHandle::open(path, O_RDONLY | O_NOFOLLOW);
  if (!handle) return make_error(handle.error());
  struct stat info {};
  if (fstat(handle->get(), &info) != 0) return make_error(file_error("read", path, errno));
  if (!S_ISREG(info.st_mode)) return refused(path, "changed while it was packed");
  if (info.st_size > bytes_left) return refused(path, "beyond the limit on what one checkpoint holds");
  VOLADOR_TRY(writer.write(entry_header(kFile, info.st_mode, static_cast<uint64_t>(info.st_size), name)));
  int64_t left = info.st_size;
  while (left > 0) {
    auto count =
        read_some(handle->get(), buffer.data(), std::min<size_t>(buffer.size(), static_cast<size_t>(left)), path);
    if (!count) return make_error(count.error());
    if (*count == 0) return refused(path, "became shorter while it was packed");
    VOLADOR_TRY(writer.write({buffer.data(), *count}));
    left -= static_cast<int64_t>(*count);
  }
  return info.st_size;
}

Result<ArchiveSummary> pack_into(int fd, const fs::path& directory, const std::vector<ArchiveEntry>& entries,
                                 const fs::path& archive, const ArchiveLimits& limits, Durability durability) {
  ArchiveWriter writer(fd, archive);
  VOLADOR_TRY(writer.start());
  ArchiveSummary summary;
  std::string buffer(kBufferBytes, '\0');
  for (const ArchiveEntry& entry : entries) {
    const fs::path path = directory / entry.name;
    if (entry.is_directory) {
      struct stat info {};
      if (lstat(path.c_str(), &info) != 0) return make_error(file_error("read", path, errno));
      VOLADOR_TRY(writer.write(entry_header(kDirectory, info.st_mode, 0, entry.name)));
    } else {
      auto size = pack_file(writer, path, entry.name, buffer, limits.content_bytes_max - summary.content_bytes);
      if (!size) return make_error(size.error());
      summary.content_bytes += *size;
    }
    ++summary.entries;
  }
  std::string end;
  put(end, kEnd);
  put(end, static_cast<uint64_t>(summary.entries));
  put(end, static_cast<uint64_t>(summary.content_bytes));
  VOLADOR_TRY(writer.write(end));
  auto digest = writer.finish();
  if (!digest) return make_error(digest.error());
  if (durability == Durability::kPower) VOLADOR_TRY(sync_file(fd, archive));
  summary.sha256 = *digest;
  summary.archive_bytes = writer.bytes();
  return summary;
}

// Whether the path is relative and its components are plain names.
bool is_safe(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\0') != std::string_view::npos) return false;
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

struct MadeDirectory {
  fs::path path;
  unsigned mode;
};

Result<void> unpack_file(ArchiveReader& reader, const fs::path& path, unsigned mode, uint64_t size, std::string& buffer,
                         Durability durability) {
  auto handle = FileHandle::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!handle) return make_error(handle.error());
  while (size > 0) {
    const size_t count = static_cast<size_t>(std::min<uint64_t>(buffer.size(), size));
    VOLADOR_TRY(reader.read(buffer.data(), count));
    VOLADOR_TRY(write_all(handle->get(), {buffer.data(), count}, path));
    size -= count;
  }
  if (fchmod(handle->get(), mode | 0600) != 0) return make_error(file_error("write", path, errno));
  if (durability == Durability::kProcess) return {};
  return sync_file(handle->get(), path);
}

// Appends the directories that it creates to `directories`.
Result<ArchiveSummary> unpack_into(ArchiveReader& reader, const fs::path& archive, const fs::path& root,
                                   std::vector<MadeDirectory>& directories, const ArchiveLimits& limits,
                                   Durability durability) {
  ArchiveSummary summary;
  std::string buffer(kBufferBytes, '\0');
  while (true) {
    auto kind = reader.number(1);
    if (!kind) return make_error(kind.error());
    if (*kind == kEnd) break;
    auto mode = reader.number(2);
    if (!mode) return make_error(mode.error());
    auto name_bytes = reader.number(2);
    if (!name_bytes) return make_error(name_bytes.error());
    auto size = reader.number(8);
    if (!size) return make_error(size.error());
    if (*kind != kDirectory && *kind != kFile)
      return refused(archive, fmt::format("corrupt: an entry of kind {}", *kind));
    if (*name_bytes > limits.path_bytes_max)
      return refused(archive, fmt::format("an entry's path is {} bytes long", *name_bytes));
    std::string name(*name_bytes, '\0');
    VOLADOR_TRY(reader.read(name.data(), name.size()));
    if (!is_safe(name))
      return refused(archive,
                     fmt::format("unsafe: an entry is named \"{}\", outside of the target or not plain", name));
    if (++summary.entries > limits.entries_max)
      return refused(archive, fmt::format("more than {}", counted(limits.entries_max, "entry", "entries")));
    if (*size > static_cast<uint64_t>(limits.content_bytes_max - summary.content_bytes)) {
      return refused(archive, fmt::format("more than {} of contents", counted(limits.content_bytes_max, "byte")));
    }
    const fs::path path = root / name;
    const unsigned bits = static_cast<unsigned>(*mode) & 0777U;
    if (*kind == kDirectory) {
      if (*size != 0) return refused(archive, fmt::format("corrupt: directory \"{}\" has contents", name));
      if (::mkdir(path.c_str(), 0700) != 0)
        return refused(archive, fmt::format("corrupt: directory \"{}\" occurs twice or has no parent", name));
      directories.push_back({path, bits | 0700});
    } else {
      auto made = unpack_file(reader, path, bits, *size, buffer, durability);
      if (!made) {
        if (made.error().code == ErrorCode::kNotFound)
          return refused(archive, fmt::format("corrupt: file \"{}\" has no directory", name));
        return make_error(made.error());
      }
      summary.content_bytes += static_cast<int64_t>(*size);
    }
  }
  auto entries = reader.number(8);
  if (!entries) return make_error(entries.error());
  auto bytes = reader.number(8);
  if (!bytes) return make_error(bytes.error());
  if (*entries != static_cast<uint64_t>(summary.entries) || *bytes != static_cast<uint64_t>(summary.content_bytes)) {
    return refused(archive, "corrupt: its end counts other entries than it has");
  }
  auto digest = reader.finish();
  if (!digest) return make_error(digest.error());
  summary.sha256 = *digest;
  summary.archive_bytes = reader.archive_bytes();
  return summary;
}

Result<std::vector<ArchiveSummary>> unpack_all_into(const std::vector<fs::path>& archives, const fs::path& root,
                                                    const ArchiveLimits& limits, Durability durability) {
  std::vector<ArchiveSummary> summaries;
  std::vector<MadeDirectory> directories;
  for (const fs::path& archive : archives) {
    auto file = HashedFile::open(archive);
    if (!file) return make_error(file.error());
    ArchiveReader reader(std::move(*file), archive);
    auto summary = unpack_into(reader, archive, root, directories, limits, durability);
    if (!summary) return make_error(summary.error());
    summaries.push_back(std::move(*summary));
  }
  for (auto made = directories.rbegin(); made != directories.rend(); ++made) {
    if (::chmod(made->path.c_str(), made->mode) != 0) return make_error(file_error("write", made->path, errno));
    if (durability == Durability::kPower) VOLADOR_TRY(sync_directory(made->path));
  }
  if (durability == Durability::kPower) VOLADOR_TRY(sync_directory(root));
  return summaries;
}

}  // namespace

Result<std::vector<ArchiveEntry>> list_entries(const fs::path& directory, const ArchiveLimits& limits) {
  return list_tree(directory, limits);
}

Result<ArchiveSummary> pack_directory(const fs::path& directory, const fs::path& archive, const ArchiveLimits& limits,
                                      Durability durability) {
  auto entries = list_tree(directory, limits);
  if (!entries) return make_error(entries.error());
  return pack_entries(directory, *entries, archive, limits, durability);
}

Result<ArchiveSummary> pack_entries(const fs::path& directory, const std::vector<ArchiveEntry>& entries,
                                    const fs::path& archive, const ArchiveLimits& limits, Durability durability) {
  fs::path partial = archive;
  partial += ".partial";
  auto handle = FileHandle::open(partial, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!handle) return make_error(handle.error());
  auto summary = pack_into(handle->get(), directory, entries, partial, limits, durability);
  if (summary && ::rename(partial.c_str(), archive.c_str()) != 0)
    summary = make_error(file_error("write", archive, errno));
  if (!summary) {
    ::unlink(partial.c_str());
    return summary;
  }
  if (durability == Durability::kProcess) return summary;
  VOLADOR_TRY(sync_directory(archive.has_parent_path() ? archive.parent_path() : fs::path(".")));
  return summary;
}

Result<ArchiveSummary> unpack_archive(const fs::path& archive, const fs::path& target, const ArchiveLimits& limits,
                                      Durability durability) {
  auto summaries = unpack_archives({archive}, target, limits, durability);
  if (!summaries) return make_error(summaries.error());
  return std::move(summaries->front());
}

Result<std::vector<ArchiveSummary>> unpack_archives(const std::vector<fs::path>& archives, const fs::path& target,
                                                    const ArchiveLimits& limits, Durability durability) {
  std::error_code code;
  if (fs::exists(fs::symlink_status(target, code)) &&
      (!fs::is_directory(fs::symlink_status(target, code)) || !fs::is_empty(target, code))) {
    return refused(target, "expected no directory there yet, or an empty one");
  }
  std::string root = target.string() + ".unpack-XXXXXX";
  if (::mkdtemp(root.data()) == nullptr) return make_error(file_error("write", root, errno));
  auto summaries = unpack_all_into(archives, root, limits, durability);
  if (summaries) {
    if (::rename(root.c_str(), target.c_str()) != 0) summaries = make_error(file_error("write", target, errno));
  }
  if (!summaries) {
    fs::remove_all(root, code);
    return summaries;
  }
  if (durability == Durability::kProcess) return summaries;
  VOLADOR_TRY(sync_directory(target.has_parent_path() ? target.parent_path() : fs::path(".")));
  return summaries;
}

Result<ArchiveSummary> verify_archive(const fs::path& archive) {
  auto file = HashedFile::open(archive);
  if (!file) return make_error(file.error());
  std::string buffer(kBufferBytes, '\0');
  while (true) {
    auto count = file->read(buffer.data(), buffer.size());
    if (!count) return make_error(count.error());
    if (*count == 0) break;
  }
  auto digest = file->check();
  if (!digest) return make_error(digest.error());
  ArchiveSummary summary;
  summary.sha256 = *digest;
  summary.archive_bytes = file->size();
  return summary;
}

}  // namespace volador
