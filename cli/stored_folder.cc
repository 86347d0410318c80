#include "cli/stored_folder.h"

#include <fmt/format.h>

#include "runtime/paths.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;

Result<int64_t> copy_objects(StoredPlace& place, const fs::path& to) {
  const auto objects = place.storage.objects().list(place.key, {});
  if (!objects) return make_error(objects.error());
  std::vector<std::string> files;
  int64_t bytes = 0;
  for (const storage::StoredObject& object : *objects) {
    files.push_back(object.path);
    bytes += object.bytes;
  }
  if (files.empty())
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: nothing is stored there", place.storage.url().below(place.key).text()));
  std::error_code code;
  fs::create_directories(to, code);
  if (code) return make_error(file_error("make", to, code.value()));
  VOLADOR_TRY(place.storage.objects().get(place.key, files, to, {}));
  return bytes;
}

}  // namespace

tl::expected<StoredPlace, Failure> open_stored_place(const std::string& address) {
  auto url = storage::parse_storage_url(address);
  if (!url) return fail(ExitCode::kUsage, url.error());
  auto parts = url->parent();
  if (!parts)
    return usage_error(fmt::format("{}: name a place below it, such as {}", address, url->below("name").text()));
  auto storage = storage::Storage::open({std::move(parts->first)});
  if (!storage) return fail_here(storage.error());
  return StoredPlace{std::move(*storage), std::move(parts->second)};
}

Result<StoredCopy> copy_stored(StoredPlace& place, const fs::path& to, const std::vector<std::string>& only) {
  const auto got = place.storage.download(place.key, to, only);
  if (got) return StoredCopy{.bytes = got->bytes(), .verified = true};
  if (got.error().code != ErrorCode::kNotFound || !only.empty()) return make_error(got.error());
  const auto bytes = copy_objects(place, to);
  if (!bytes) return make_error(bytes.error());
  return StoredCopy{.bytes = *bytes, .verified = false};
}

}  // namespace volador::cli
