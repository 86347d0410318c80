#include "runtime/paths.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "runtime/make_directory.h"

namespace volador {

namespace fs = std::filesystem;

namespace {

// Bytes that a node's socket adds to the run folder: "/", 8 digits, "/", its name; and the terminating zero.
constexpr size_t kRunBytesMax = sizeof(sockaddr_un::sun_path) - 1 - (1 + 8 + 1 + kSocketNameBytesMax);

constexpr std::string_view kTemporaryEnding = ".tmp";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// XDG requires that relative paths are ignored.
std::string absolute_or_empty(const std::string& path) { return fs::path(path).is_absolute() ? path : std::string(); }

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() || !path.has_relative_path() ? path : path.parent_path();
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  // Returns 0 or errno: a full disk may be reported only at close.
  int close() {
    int result = ::close(fd_);
    fd_ = -1;
    return result == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

std::string temporary_suffix() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) number = static_cast<uint64_t>(::getpid());
  return fmt::format(".{:016x}{}", number, kTemporaryEnding);
}

// Returns 0 or errno.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int write_synced(const fs::path& path, std::string_view bytes, mode_t mode) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (file.get() < 0) return errno;
  if (::fchmod(file.get(), mode) != 0) return errno;  // Independent of the umask.
  if (int error = write_all(file.get(), bytes); error != 0) return error;
  if (::fsync(file.get()) != 0) return errno;
  return file.close();
}

}  // namespace

PathEnvironment PathEnvironment::of_this_process() {
  PathEnvironment environment{
      .volador_home = variable("VOLADOR_HOME"),
      .home = variable("HOME"),
      .xdg_state_home = variable("XDG_STATE_HOME"),
      .xdg_runtime_dir = variable("XDG_RUNTIME_DIR"),
      .xdg_cache_home = variable("XDG_CACHE_HOME"),
      .xdg_config_home = variable("XDG_CONFIG_HOME"),
      .uid = ::getuid(),
  };
  if (environment.volador_home.empty() && absolute_or_empty(environment.xdg_runtime_dir).empty())
    environment.memory_run = fmt::format("/dev/shm/volador-{}", environment.uid);
  if (environment.home.empty()) {
    char buffer[4096];
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(environment.uid, &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr)
      environment.home = found->pw_dir;
  }
  return environment;
}

Result<Paths> Paths::from(const PathEnvironment& environment) {
  Paths paths;
  const fs::path user_home = absolute_or_empty(environment.home);
  auto below_home = [&](const std::string& xdg, const char* fallback) -> fs::path {
    if (!absolute_or_empty(xdg).empty()) return fs::path(xdg) / "volador";
    return user_home.empty() ? fs::path() : user_home / fallback / "volador";
  };

  if (!environment.volador_home.empty()) {
    if (absolute_or_empty(environment.volador_home).empty())
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("VOLADOR_HOME: expected an absolute path, got \"{}\"", environment.volador_home));
    paths.home_ = without_trailing_slash(fs::path(environment.volador_home).lexically_normal());
    paths.cache_ = paths.home_ / "cache";
  } else {
    paths.home_ = below_home(environment.xdg_state_home, ".local/state");
    paths.cache_ = below_home(environment.xdg_cache_home, ".cache");
  }
  if (paths.home_.empty() || paths.cache_.empty())
    return make_error(
        ErrorCode::kInvalidArgument,
        "no home folder: neither VOLADOR_HOME nor HOME is an absolute path; set VOLADOR_HOME to a folder of yours");

  fs::path config_home = below_home(environment.xdg_config_home, ".config");
  paths.user_config_ = config_home.empty() ? paths.home_ / "config.yaml" : config_home / "config.yaml";

  paths.run_ = fmt::format("/tmp/volador-{}", environment.uid);
  fs::path wanted;
  if (!environment.volador_home.empty()) {
    wanted = paths.home_ / "run";
  } else if (std::string runtime = absolute_or_empty(environment.xdg_runtime_dir); !runtime.empty()) {
    wanted = fs::path(runtime) / "volador";
  }
  if (!wanted.empty() && wanted.native().size() <= kRunBytesMax) paths.run_ = wanted;
  paths.memory_run_ = environment.memory_run;
  return paths;
}

Result<void> check_name(std::string_view what, std::string_view name) {
  auto letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  bool good = !name.empty() && name.size() <= 63 && letter_or_digit(name.front());
  for (char c : name) good = good && (letter_or_digit(c) || c == '-' || c == '_' || c == '.');
  if (good) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("{} \"{}\": expected 1 to 63 letters, digits, '-', '_' and '.', a letter or digit first", what,
                  name.substr(0, 80)));
}

Error file_error(std::string_view action, const fs::path& path, int error_number) {
  ErrorCode code = ErrorCode::kUnavailable;
  std::string_view next;
  switch (error_number) {
    case ENOENT:
      code = ErrorCode::kNotFound;
      break;
    case ENOSPC:
    case EDQUOT:
      next = "; free some space there or choose another folder";
      break;
    case EROFS:
    case EACCES:
    case EPERM:
      code = ErrorCode::kPermissionDenied;
      next = "; choose a folder that you may write, for instance by VOLADOR_HOME";
      break;
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
      code = ErrorCode::kInvalidArgument;
      break;
    default:
      break;
  }
  char buffer[128];
  return Error{code, fmt::format("cannot {} {}: {}{}", action, path.native(),
                                 ::strerror_r(error_number, buffer, sizeof buffer), next)};
}

Result<void> make_private_directory(const fs::path& directory) { return make_directory(directory, 0700); }

Result<void> make_run_directory(const fs::path& directory, uid_t uid) {
  struct stat status {};
  if (::lstat(directory.c_str(), &status) != 0) {
    if (errno != ENOENT) return make_error(file_error("read the folder", directory, errno));
    VOLADOR_TRY(make_private_directory(directory));
    if (::lstat(directory.c_str(), &status) != 0) return make_error(file_error("read the folder", directory, errno));
  }
  if (!S_ISDIR(status.st_mode))
    return make_error(ErrorCode::kPermissionDenied,
                      fmt::format("{} is a link or a file, where the folder of Volador's sockets belongs; remove it",
                                  directory.native()));
  if (status.st_uid != uid)
    return make_error(ErrorCode::kPermissionDenied, fmt::format("{} belongs to user {}, not to you (user {}); have it "
                                                                "removed, or set VOLADOR_HOME to a short path of yours",
                                                                directory.native(), status.st_uid, uid));
  if ((status.st_mode & 0777) != 0700 && ::chmod(directory.c_str(), 0700) != 0)
    return make_error(file_error("make private the folder", directory, errno));
  return {};
}

Result<void> write_file_atomic(const fs::path& path, std::string_view bytes, mode_t mode) {
  fs::path temporary = path;
  temporary += temporary_suffix();
  int error = write_synced(temporary, bytes, mode);
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return make_error(file_error("write", path, error));
  }
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  FileDescriptor parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0 || ::fsync(parent.get()) != 0) return make_error(file_error("sync the folder", folder, errno));
  return {};
}

void remove_half_written(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored) && entry->path().native().ends_with(kTemporaryEnding))
      fs::remove(entry->path(), ignored);
  }
}

Result<std::string> read_file_limited(const fs::path& path, size_t bytes_max) {
  // Non-blocking, so that a named pipe of that name does not block.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return make_error(file_error("read", path, errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return make_error(file_error("read", path, errno));
  if (!S_ISREG(status.st_mode))
    return make_error(ErrorCode::kInvalidArgument, fmt::format("cannot read {}: not a regular file", path.native()));

  std::string bytes;
  char buffer[64 << 10];
  while (true) {
    ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return make_error(file_error("read", path, errno));
    if (count == 0) return bytes;
    if (bytes.size() + static_cast<size_t>(count) > bytes_max)
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("cannot read {}: longer than the limit of {} bytes", path.native(), bytes_max));
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace volador
