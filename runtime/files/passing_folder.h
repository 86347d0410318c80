// A temporary folder.
#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

namespace volador {

// Removes the path with its contents on construction and destruction. The user creates the folder.
class PassingFolder {
 public:
  explicit PassingFolder(std::filesystem::path path) : path_(std::move(path)) { remove(); }
  ~PassingFolder() { remove(); }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path path_;
};

}  // namespace volador
