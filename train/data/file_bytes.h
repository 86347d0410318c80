// Files of data sets, plain or compressed with gzip.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace volador::train {

// Reads a whole file; the content of a gzip file is unpacked, whatever the file's name.
// Throws kNotFound: there is no such file. kInvalidArgument: it is no regular file, or its gzip data is damaged or cut
// off. kUnavailable: it cannot be read.
std::string read_file(const std::filesystem::path& file);

// Returns the first existing file of `folders` × `names`, as it is or with ".gz" added, folders first.
// kNotFound: there is none; the message names the folders and names that were tried.
std::filesystem::path find_file(const std::vector<std::filesystem::path>& folders,
                                const std::vector<std::string>& names);

}  // namespace volador::train
