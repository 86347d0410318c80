// A folder for what is not to stay.
#pragma once

#include <filesystem>
#include <system_error>
#include <utility>

namespace volador {

// What an earlier one left at the path goes when this is made, and all that is there when this goes. The folder itself is made by who uses it.
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
