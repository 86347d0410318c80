#include "jobs/job_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "runtime/paths.h"
#include "runtime/resources.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPart = ".part";
constexpr size_t kHexDigits = 64;

bool is_hash(std::string_view text) {
  return text.size() == kHexDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

JobFiles::JobFiles(fs::path folder, const JobFilesLimits& limits) : folder_(std::move(folder)), limits_(limits) {
  std::error_code ignored;
  std::vector<fs::path> unfinished;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.path().extension() == kPart) unfinished.push_back(entry.path());
  }
  for (const fs::path& path : unfinished) fs::remove(path, ignored);
}

std::optional<int64_t> JobFiles::bytes_of(const std::string& sha256) const {
  std::error_code failed;
  if (!is_hash(sha256)) return std::nullopt;
  const auto bytes = fs::file_size(folder_ / sha256, failed);
  if (failed) return std::nullopt;
  return static_cast<int64_t>(bytes);
}

std::optional<fs::path> JobFiles::path_of(const std::string& raw_sha256) const {
  std::string name;
  for (const char byte : raw_sha256) name += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  if (!bytes_of(name)) return std::nullopt;
  return folder_ / name;
}

Result<void> JobFiles::make_room(int64_t bytes, const std::function<bool(const std::string& sha256)>& needed) {
  struct Stored {
    fs::path path;
    fs::file_time_type used;
    int64_t bytes = 0;
  };
  std::vector<Stored> all;
  int64_t total = bytes;
  for (const auto& [sha256, upload] : uploads_) total += upload.size;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.path().extension() == kPart) continue;
    Stored one{.path = entry.path(),
               .used = entry.last_write_time(ignored),
               .bytes = static_cast<int64_t>(entry.file_size(ignored))};
    total += one.bytes;
    if (is_hash(one.path.filename().string()) && !needed(one.path.filename().string())) all.push_back(std::move(one));
  }
  std::ranges::sort(all, {}, &Stored::used);
  for (const Stored& one : all) {
    if (total <= limits_.bytes) break;
    if (fs::remove(one.path, ignored)) total -= one.bytes;
  }
  if (total <= limits_.bytes) return {};
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("the code folders of queued and running jobs take {}, the limit; submit when some have "
                                "ended, or mount the code from a shared folder with --directory",
                                format_bytes(limits_.bytes)));
}

Result<v1::PutJobFilesReply> JobFiles::put(const v1::PutJobFilesRequest& part,
                                           const std::function<bool(const std::string& sha256)>& needed) {
  v1::PutJobFilesReply reply;
  if (!is_hash(part.sha256())) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("sha256: expected 64 hex digits, got \"{}\"", part.sha256()));
  }
  if (bytes_of(part.sha256())) {
    std::error_code ignored;
    fs::last_write_time(folder_ / part.sha256(), fs::file_time_type::clock::now(), ignored);
    reply.set_complete(true);
    return reply;
  }
  if (part.data().empty()) return reply;
  if (part.size_bytes() < 1 || part.size_bytes() > limits_.archive_bytes) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the code folder is packed to {}; at most {} are accepted: list data and results in "
                                  ".voladorignore, and put data where the nodes can read it",
                                  format_bytes(part.size_bytes()), format_bytes(limits_.archive_bytes)));
  }
  const auto drop = [&](std::string message) {
    std::error_code ignored;
    if (const auto found = uploads_.find(part.sha256()); found != uploads_.end()) {
      fs::remove(found->second.path, ignored);
      uploads_.erase(found);
    }
    return make_error(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (part.offset() == 0) {
    (void)drop("");
    if (uploads_.size() >= limits_.uploads) {
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("{} code folders arrive already; try again in a moment", uploads_.size()));
    }
    VOLADOR_TRY(make_private_directory(folder_));
    VOLADOR_TRY(make_room(part.size_bytes(), needed));
    Upload& upload = uploads_[part.sha256()];
    upload.path = folder_ / (part.sha256() + std::string(kPart));
    upload.size = part.size_bytes();
    std::ofstream(upload.path, std::ios::binary | std::ios::trunc);
  }
  const auto found = uploads_.find(part.sha256());
  if (found == uploads_.end() || found->second.written != part.offset() ||
      part.offset() + static_cast<int64_t>(part.data().size()) > found->second.size) {
    return drop(fmt::format("offset: expected {}, got {}; send the archive again from its start",
                            found == uploads_.end() ? 0 : found->second.written, part.offset()));
  }
  Upload& upload = found->second;
  std::ofstream out(upload.path, std::ios::binary | std::ios::app);
  out.write(part.data().data(), static_cast<std::streamsize>(part.data().size()));
  if (!out.flush()) {
    const std::string why = std::strerror(errno);
    (void)drop("");
    return make_error(ErrorCode::kUnavailable, fmt::format("the head cannot store the code folder: {}", why));
  }
  out.close();
  upload.hash.update(part.data());
  upload.written += static_cast<int64_t>(part.data().size());
  if (upload.written < upload.size) return reply;
  if (security::hex(upload.hash.finish()) != part.sha256())
    return drop(fmt::format("sha256: the archive has another hash than {}; send it again", part.sha256()));
  std::error_code failed;
  fs::rename(upload.path, folder_ / part.sha256(), failed);
  uploads_.erase(found);
  if (failed)
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the head cannot store the code folder: {}", failed.message()));
  reply.set_complete(true);
  return reply;
}

}  // namespace volador::jobs
