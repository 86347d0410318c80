// Headers of tar files: POSIX ustar, with GNU's long names and sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace volador {

inline constexpr size_t kTarBlockBytes = 512;

// Appends the header of a file or directory. Its `size` bytes follow, then append_tar_padding().
void append_tar_header(std::string& out, const std::string& path, uint64_t mode, uint64_t size, bool directory);
void append_tar_padding(std::string& out, uint64_t size);
// The end of a tar file.
std::string tar_end();

}  // namespace volador
