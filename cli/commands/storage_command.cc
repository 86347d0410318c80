#include "cli/commands/storage_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "cli/stored_folder.h"
#include "runtime/files/durable_file.h"
#include "runtime/files/passing_folder.h"
#include "runtime/quantities.h"
#include "runtime/random.h"
#include "runtime/resources.h"
#include "runtime/storage/storage.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using storage::Storage;
using storage::StorageUrl;

constexpr const char* kPlaceHelp =
    "Address: s3://bucket/prefix, gs://bucket/prefix, azure://container/prefix, or the path of a folder";

tl::expected<StorageUrl, Failure> url_of(const std::string& text) {
  auto url = storage::parse_storage_url(text);
  if (!url) return fail(ExitCode::kUsage, url.error());
  return *url;
}

tl::expected<Storage, Failure> opened(StorageUrl url) {
  auto storage = Storage::open({std::move(url)});
  if (!storage) return fail_here(storage.error());
  return std::move(*storage);
}

// What is directly below a place.
struct Child {
  int64_t files = 0, bytes = 0;
  bool complete = false;  // It has a manifest.
  bool folder = false;
};

std::map<std::string, Child> children_of(const std::vector<storage::StoredObject>& objects) {
  std::map<std::string, Child> children;
  for (const storage::StoredObject& object : objects) {
    const size_t slash = object.path.find('/');
    Child& child = children[object.path.substr(0, slash)];
    child.folder |= slash != std::string::npos;
    if (slash != std::string::npos && object.path.substr(slash + 1) == storage::kManifestName) {
      child.complete = true;
      continue;
    }
    ++child.files;
    child.bytes += object.bytes;
  }
  return children;
}

Result<void> write_archive(StoredPlace& place, const fs::path& to, storage::ArchiveForm form,
                           const std::vector<std::string>& only) {
  auto reader = place.storage.archive(place.key, form, only);
  if (!reader) return make_error(reader.error());
  const fs::path partial = to.string() + ".partial";
  const auto write = [&]() -> Result<void> {
    auto file = FileHandle::open(partial, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file) return make_error(file.error());
    for (;;) {
      auto piece = (*reader)->next();
      if (!piece) return make_error(piece.error());
      if (piece->empty()) return {};
      VOLADOR_TRY(write_all(file->get(), *piece, partial));
    }
  };
  std::error_code code;
  auto written = write();
  if (written) fs::rename(partial, to, code);
  if (written && !code) return {};
  fs::remove(partial, code);
  return written ? Result<void>(make_error(file_error("write", to, code.value()))) : written;
}

}  // namespace

StorageCommand::StorageCommand() {
  add(std::make_unique<Check>());
  add(std::make_unique<List>());
  add(std::make_unique<Copy>());
  add(std::make_unique<Remove>());
}

CLI::App* StorageCommand::declare(CLI::App& root) {
  CLI::App* app =
      declare_group(root, "storage", "Check, list, copy and delete folders in S3, GCS, Azure Blob or a path");
  app->footer(
      "Credentials are those of the environment, as the providers' own tools find them.\n"
      "Examples:\n  volador storage check s3://models/volador\n  volador storage ls s3://models/volador\n"
      "  volador storage cp s3://models/volador/best best.zip");
  return app;
}

CLI::App* StorageCommand::Check::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "check", "Write, list, read and delete a small folder, and print what works: for the set-up of a storage");
  app->footer(
      "Examples:\n  volador storage check s3://models/volador\n"
      "  volador storage check \"s3://models?endpoint=https://minio.example.org:9000\"");
  app->add_option("place", place_, kPlaceHelp)->required();
  declare_json(*app);
  return app;
}

Outcome StorageCommand::Check::run(const Context& context) {
  auto url = url_of(place_);
  if (!url) return tl::unexpected(url.error());
  const std::string shown = url->text();
  auto storage = opened(std::move(*url));
  if (!storage) return tl::unexpected(storage.error());
  SystemRandom random;
  const std::string unique = fmt::format("{:016x}", random.next());
  const PassingFolder scratch(fs::temp_directory_path() / ("volador-check-" + unique));
  const storage::StorageCheck check = storage::check_storage(*storage, scratch.path(), unique);
  if (wants_json()) {
    nlohmann::ordered_json json{{"api_version", "v1"}, {"place", shown}, {"passed", check.passed}};
    json["ok"] = !check.failed.has_value();
    if (!check.failed) context.terminal.print(text_of(json));
  } else {
    for (const std::string& step : check.passed) context.terminal.print(fmt::format("ok      {}\n", step));
    if (!check.failed) context.terminal.print(fmt::format("{} can be used\n", printable(shown)));
  }
  if (check.failed) return fail_here(*check.failed);
  return {};
}

CLI::App* StorageCommand::List::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("ls", "List what is stored at a place, or the files of a stored folder");
  app->footer(
      "Examples:\n  volador storage ls s3://models/volador\n  volador storage ls s3://models/volador/best --json");
  app->add_option("place", place_, kPlaceHelp)->required();
  declare_json(*app);
  return app;
}

Outcome StorageCommand::List::run(const Context& context) {
  auto url = url_of(place_);
  if (!url) return tl::unexpected(url.error());
  auto storage = opened(*url);
  if (!storage) return tl::unexpected(storage.error());
  const auto objects = storage->objects().list("", {});
  if (!objects) return fail_here(objects.error());
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  Table table({{"name"}, {"kind"}, {"files", Align::kRight}, {"size", Align::kRight}});
  for (const auto& [name, child] : children_of(*objects)) {
    if (name == storage::kManifestName) continue;
    const char* const kind = !child.folder ? "file" : child.complete ? "stored folder" : "folder";
    rows.push_back({{"name", name}, {"kind", kind}, {"files", child.files}, {"bytes", child.bytes}});
    table.add({printable(name), kind, child.folder ? std::to_string(child.files) : "", format_bytes(child.bytes)});
  }
  if (wants_json()) {
    context.terminal.print(text_of({{"api_version", "v1"}, {"place", url->text()}, {"entries", std::move(rows)}}));
  } else {
    context.terminal.print(rows.empty() ? "nothing is stored there\n" : table.text());
  }
  return {};
}

CLI::App* StorageCommand::Copy::declare(CLI::App& root) {
  CLI::App* app =
      root.add_subcommand("cp", "Store a folder, or read a stored one into a folder, a .tar or a .zip file");
  app->footer(
      "A repeated call after a failure transfers what is missing. Checksums are compared.\n"
      "Examples:\n  volador storage cp model s3://models/volador/model\n  volador storage cp s3://models/volador/model "
      "back\n"
      "  volador storage cp s3://models/volador/model model.zip --only=weights.pt");
  app->add_option("from", from_, "Folder, or address of a stored one")->required();
  app->add_option("to", to_, "Address, or a folder that does not exist yet; FILE.tar or FILE.zip for an archive")
      ->required();
  app->add_option("--only", only_, "These files and folders only; may have * and ?, may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  declare_json(*app);
  return app;
}

Outcome StorageCommand::Copy::run(const Context& context) {
  const bool from_here = !storage::is_storage_url(from_), to_here = !storage::is_storage_url(to_);
  if (from_here && to_here)
    return usage_error("give one address, such as s3://bucket/name or file:///folder/name, and one path");
  if (!from_here && !to_here) return usage_error("give one path and one address: copies pass through this machine");
  auto place = open_stored_place(from_here ? to_ : from_);
  if (!place) return tl::unexpected(place.error());
  const std::string shown = place->storage.url().below(place->key).text();
  nlohmann::ordered_json json{{"api_version", "v1"}};
  std::string said;
  if (from_here) {
    if (!only_.empty()) return usage_error("--only: for reading; a folder is stored as a whole");
    const auto sent = place->storage.upload(from_, place->key);
    if (!sent) return fail_here(sent.error());
    json["bytes"] = sent->manifest.bytes();
    said = fmt::format("{} is stored in {}: {}, {}{}\n", printable(from_), printable(shown),
                       counted(sent->manifest.files.size(), "file"), format_bytes(sent->manifest.bytes()),
                       sent->sent_files == 0 ? "; it was there already" : "");
  } else if (to_.ends_with(".tar") || to_.ends_with(".zip")) {
    const auto form = to_.ends_with(".zip") ? storage::ArchiveForm::kZip : storage::ArchiveForm::kTar;
    if (auto written = write_archive(*place, to_, form, only_); !written) return fail_here(written.error());
    said = fmt::format("{} is in {}\n", printable(shown), printable(to_));
  } else {
    const auto got = copy_stored(*place, to_, only_);
    if (!got) return fail_here(got.error());
    json["bytes"] = got->bytes;
    json["verified"] = got->verified;
    said = fmt::format("{} is in {}: {}{}\n", printable(shown), printable(to_), format_bytes(got->bytes),
                       got->verified ? "" : "; it has no manifest, so that nothing says whether it is complete");
  }
  json["from"] = from_here ? from_ : shown;
  json["to"] = from_here ? shown : to_;
  context.terminal.print(wants_json() ? text_of(json) : said);
  return {};
}

CLI::App* StorageCommand::Remove::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("rm", "Delete everything at a place");
  app->footer("Examples:\n  volador storage rm s3://models/volador/old --yes");
  app->add_option("place", place_, kPlaceHelp)->required();
  declare_yes(*app);
  declare_json(*app);
  return app;
}

Outcome StorageCommand::Remove::run(const Context& context) {
  auto place = open_stored_place(place_);
  if (!place) return tl::unexpected(place.error());
  const std::string shown = place->storage.url().below(place->key).text();
  if (auto sure = confirm(context, fmt::format("delete everything in {}?", shown)); !sure) return sure;
  if (auto removed = place->storage.remove(place->key); !removed) return fail_here(removed.error());
  context.terminal.print(wants_json() ? text_of({{"api_version", "v1"}, {"deleted", shown}})
                                      : fmt::format("{} is deleted\n", printable(shown)));
  return {};
}

}  // namespace volador::cli
