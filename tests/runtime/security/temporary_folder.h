// A temporary folder, removed with its owner.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

namespace volador::security {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/volador_security_XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline unsigned mode_of(const std::filesystem::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

}  // namespace volador::security
