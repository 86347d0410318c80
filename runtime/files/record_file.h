// An append-only file of records; a torn end after a crash is detected and skipped.
//
//   file   = "VLDREC01" record*
//   record = length (4 bytes, little endian) crc32c of the payload (4 bytes) payload
//
// Single writer: the caller has locked the folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador {

inline constexpr size_t kRecordBytesMax = size_t{128} << 20;

// Appends the encoded record to `to`.
void append_record(std::string& to, std::string_view payload);
// Reads the next record; nullopt at the end or if the rest is torn or damaged.
std::optional<std::string> next_record(std::istream& from);

// Result of reading a record file.
struct RecordsRead {
  uint64_t bytes = 0;  // Length up to the end of the last complete record; new records go there.
  bool torn = false;   // Bytes that are not a record follow.
};
// Visits the records in order. kNotFound; kUnavailable: the file cannot be read; kInvalidArgument: not a record file.
[[nodiscard]] Result<RecordsRead> read_records(const std::filesystem::path& file,
                                               const std::function<void(std::string_view)>& visit);

// Writes records (from append_record) at offset `at` and truncates what lay behind it; at 0 the file starts anew.
// Returns the new length; on an error the file keeps its old length. kUnavailable: no space, or another disk error; the
// message names the file. `sync`: flushes to disk before returning.
[[nodiscard]] Result<uint64_t> write_records(const std::filesystem::path& file, uint64_t at, std::string_view records,
                                             bool sync);

}  // namespace volador
