// A file of records that only grows at its end: what a crash tore off there is noticed and left out.
//
//   file   = "VLDREC01" record*
//   record = length (4 bytes, little endian) crc32c of the payload (4 bytes) payload
//
// One writer at a time: the caller has locked the folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::head {

inline constexpr size_t kRecordBytesMax = size_t{128} << 20;

// Adds the record to what is to be written.
void append_record(std::string& to, std::string_view payload);
// The next one; none: the end, or what follows is torn or damaged.
std::optional<std::string> next_record(std::istream& from);

struct RecordsRead {
  uint64_t bytes = 0;  // Of the file, up to the end of the last whole record: what is added goes there.
  bool torn = false;   // Something follows that is none.
};
// Visits the records in their order. kNotFound; kUnavailable: it cannot be read; kInvalidArgument: not such a file.
[[nodiscard]] Result<RecordsRead> read_records(const std::filesystem::path& file, const std::function<void(std::string_view)>& visit);

// Writes records (of append_record) at `at`, what lay behind is cut off; at 0 the file begins anew. Returns the new length; on an error the
// file is as long as before. kUnavailable: no space, or another error of the disk; the message names the file. `sync`: on the disk on return.
[[nodiscard]] Result<uint64_t> write_records(const std::filesystem::path& file, uint64_t at, std::string_view records, bool sync);

}  // namespace volador::head
