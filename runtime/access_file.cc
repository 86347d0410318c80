#include "runtime/access_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/cluster_processes.h"

namespace volador {

namespace {
constexpr size_t kAccessBytesMax = 64 << 10;
}  // namespace

Result<void> save_access(const Paths& paths, const ClusterAccess& access) {
  VOLADOR_TRY(check_name("cluster", access.cluster));
  const ClusterPaths files = paths.cluster(access.cluster);
  VOLADOR_TRY(make_private_directory(files.directory));
  const nlohmann::ordered_json json{{"cluster", access.cluster},
                                    {"cluster_id", access.cluster_id},
                                    {"address", access.address},
                                    {"fingerprint", access.fingerprint},
                                    {"token", access.token}};
  return write_file_atomic(files.access(), json.dump(2) + "\n", 0600);
}

Result<ClusterAccess> load_access(const Paths& paths, std::string_view cluster) {
  VOLADOR_TRY(check_name("cluster", cluster));
  const std::filesystem::path file = paths.cluster(cluster).access();
  auto text = read_file_limited(file, kAccessBytesMax);
  if (!text && text.error().code == ErrorCode::kNotFound)
    return make_error(ErrorCode::kNotFound, fmt::format("no head of cluster \"{}\" was started here ({} is missing)",
                                                        cluster, file.native()));
  if (!text) return make_error(text.error());

  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  auto field = [&](const char* name) {
    return json.is_object() && json.contains(name) && json[name].is_string() ? json[name].get<std::string>()
                                                                             : std::string();
  };
  ClusterAccess access{.cluster = field("cluster"),
                       .cluster_id = field("cluster_id"),
                       .address = field("address"),
                       .fingerprint = field("fingerprint"),
                       .token = field("token")};
  if (access.cluster != cluster || access.address.empty() || access.token.empty())
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is damaged; `volador start --head` writes it anew", file.native()));
  return access;
}

std::optional<ClusterAccess> access_at(const Paths& paths, const std::string& address) {
  for (const std::string& cluster : local_clusters(paths)) {
    auto access = load_access(paths, cluster);
    if (access && access->address == address) return std::move(*access);
  }
  return std::nullopt;
}

Result<void> save_current_cluster(const Paths& paths, std::string_view cluster) {
  VOLADOR_TRY(check_name("cluster", cluster));
  VOLADOR_TRY(make_private_directory(paths.home()));
  return write_file_atomic(paths.current(), fmt::format("{}\n", cluster), 0600);
}

Result<std::string> load_current_cluster(const Paths& paths) {
  auto text = read_file_limited(paths.current(), 4096);
  if (!text && text.error().code == ErrorCode::kNotFound)
    return make_error(ErrorCode::kNotFound, "no cluster was started on this machine; start one: volador start --head");
  if (!text) return make_error(text.error());
  while (!text->empty() && text->back() == '\n') text->pop_back();
  VOLADOR_TRY(check_name("cluster", *text));
  return *text;
}

}  // namespace volador
