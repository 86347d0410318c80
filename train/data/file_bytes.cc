#include "train/data/file_bytes.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "runtime/result.h"

namespace volador::train {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

[[noreturn]] void fail(ErrorCode code, const std::filesystem::path& file, const std::string& text) {
  throw Exception(Error{code, file.string() + ": " + text});
}

struct CloseGz {
  void operator()(gzFile file) const { gzclose_r(file); }
};

}  // namespace

std::string read_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) fail(ErrorCode::kNotFound, file, "there is no such file");
  if (error) fail(ErrorCode::kUnavailable, file, "cannot be read: " + error.message());
  if (!std::filesystem::is_regular_file(status)) fail(ErrorCode::kInvalidArgument, file, "expected a regular file");
  const std::unique_ptr<gzFile_s, CloseGz> in(gzopen(file.c_str(), "rb"));
  if (in == nullptr) fail(ErrorCode::kUnavailable, file, std::string("cannot be opened: ") + std::strerror(errno));
  gzbuffer(in.get(), kBlockBytes / 4);
  std::string bytes;
  if (const auto size = std::filesystem::file_size(file, error); !error) bytes.reserve(size);
  while (true) {
    const size_t old = bytes.size();
    bytes.resize(old + kBlockBytes);
    const int count = gzread(in.get(), bytes.data() + old, static_cast<unsigned>(kBlockBytes));
    bytes.resize(old + static_cast<size_t>(count > 0 ? count : 0));
    if (count > 0) continue;
    int code = Z_OK;
    const char* text = gzerror(in.get(), &code);
    const std::string after = " after " + std::to_string(old) + " unpacked bytes";
    if (code == Z_ERRNO) fail(ErrorCode::kUnavailable, file, std::string("cannot be read: ") + std::strerror(errno));
    if (code == Z_BUF_ERROR) fail(ErrorCode::kInvalidArgument, file, "the gzip data is cut off" + after);
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END))
      fail(ErrorCode::kInvalidArgument, file, "the gzip data is damaged" + after + " (" + text + ")");
    return bytes;
  }
}

std::filesystem::path find_file(const std::vector<std::filesystem::path>& folders,
                                const std::vector<std::string>& names) {
  std::error_code ignored;
  for (const auto& folder : folders)
    for (const std::string& name : names)
      for (const char* suffix : {"", ".gz"})
        if (auto file = folder / (name + suffix); std::filesystem::is_regular_file(file, ignored)) return file;
  std::string text = "found no file ";
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : " or ") + names[i];
  text += ", plain or .gz, in ";
  for (size_t i = 0; i < folders.size(); ++i) text += (i == 0 ? "" : " or ") + folders[i].string();
  throw Exception(Error{ErrorCode::kNotFound, std::move(text)});
}

}  // namespace volador::train
