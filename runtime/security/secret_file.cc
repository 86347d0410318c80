#include "runtime/security/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace volador::security {
namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Error> cannot(const char* verb, const std::filesystem::path& path) {
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("cannot {} {}: {}", verb, path.string(), std::strerror(errno)));
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Removes the temporary file unless it was renamed.
struct Temporary {
  std::string path;
  ~Temporary() {
    if (!path.empty()) ::unlink(path.c_str());
  }
};

Result<void> check_private(const std::filesystem::path& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) {
    return make_error(ErrorCode::kPermissionDenied, fmt::format("{} is not a plain file", path.string()));
  }
  if (info.st_uid != ::geteuid()) {
    return make_error(ErrorCode::kPermissionDenied,
                      fmt::format("{} belongs to user {}, expected {} (who runs this). Use a folder of your own, or "
                                  "`chown {} {}`.",
                                  path.string(), info.st_uid, ::geteuid(), ::geteuid(), path.string()));
  }
  if ((info.st_mode & 077) != 0) {
    return make_error(
        ErrorCode::kPermissionDenied,
        fmt::format("{} may be read by other users (mode {:04o}, expected 0600): its secret may be known. "
                    "`chmod 600 {}` if nobody else uses this machine, else remove it and make a new one.",
                    path.string(), info.st_mode & 07777, path.string()));
  }
  if (static_cast<size_t>(info.st_size) > kSecretFileBytesMax) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} has {} bytes, expected at most {}", path.string(),
                                                               info.st_size, kSecretFileBytesMax));
  }
  return {};
}

}  // namespace

Result<void> write_secret_file(const std::filesystem::path& path, std::string_view bytes) {
  std::string name = path.string() + ".XXXXXX";
  const File file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.fd() < 0) return cannot("write", path);
  Temporary temporary{name};
  if (::fchmod(file.fd(), 0600) != 0 || !write_all(file.fd(), bytes) || ::fsync(file.fd()) != 0 ||
      ::rename(name.c_str(), path.c_str()) != 0) {
    return cannot("write", path);
  }
  temporary.path.clear();
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const File opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.fd() < 0 || ::fsync(opened.fd()) != 0) return cannot("sync the folder of", path);
  return {};
}

Result<std::string> read_secret_file(const std::filesystem::path& path) {
  // Non-blocking: a named pipe in its place must not block.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.fd() < 0) {
    if (errno == ENOENT) return make_error(ErrorCode::kNotFound, fmt::format("{} does not exist", path.string()));
    if (errno == ELOOP) {
      return make_error(ErrorCode::kPermissionDenied,
                        fmt::format("{} is a symbolic link, expected a plain file", path.string()));
    }
    if (errno == EACCES) {
      return make_error(ErrorCode::kPermissionDenied, fmt::format("{} cannot be read by this user", path.string()));
    }
    return cannot("read", path);
  }
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return cannot("read", path);
  VOLADOR_TRY(check_private(path, info));
  std::string out(static_cast<size_t>(info.st_size), '\0');
  size_t have = 0;
  while (have < out.size()) {
    const ssize_t got = ::read(file.fd(), out.data() + have, out.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot("read", path);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  out.resize(have);
  return out;
}

}  // namespace volador::security
