#include "head/shell/cluster_identity.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "runtime/random.h"
#include "runtime/security/secret_file.h"

namespace volador::head {
namespace {

constexpr std::array<std::string_view, 64> kBirds{
    "albatross", "avocet",    "bittern",  "bluetail",  "bunting",   "cormorant", "crane",      "curlew",
    "dipper",    "dotterel",  "dunlin",   "egret",     "eider",     "falcon",    "fieldfare",  "finch",
    "fulmar",    "gannet",    "garganey", "godwit",    "goldeneye", "goshawk",   "grebe",      "guillemot",
    "harrier",   "heron",     "hobby",    "hoopoe",    "ibis",      "jackdaw",   "kestrel",    "kingfisher",
    "kite",      "kittiwake", "knot",     "lapwing",   "linnet",    "mallard",   "martin",     "merlin",
    "nightjar",  "nuthatch",  "oriole",   "osprey",    "ouzel",     "petrel",    "pintail",    "pipit",
    "plover",    "puffin",    "redstart", "redwing",   "robin",     "sandpiper", "shearwater", "siskin",
    "skua",      "snipe",     "starling", "stonechat", "swift",     "teal",      "tern",       "whimbrel"};

}  // namespace

std::string pick_cluster_name(const Paths& paths, Random& random) {
  const auto taken = [&paths](std::string_view name) {
    std::error_code ignored;
    return std::filesystem::exists(paths.cluster(name).directory, ignored);
  };
  const size_t first = random.below(kBirds.size());
  for (size_t round = 1;; ++round) {
    for (size_t i = 0; i < kBirds.size(); ++i) {
      const std::string_view bird = kBirds[(first + i) % kBirds.size()];
      std::string name = round == 1 ? std::string(bird) : fmt::format("{}-{}", bird, round);
      if (!taken(name)) return name;
    }
  }
}

Result<ClusterIdentity> load_identity(const std::filesystem::path& file) {
  auto text = security::read_secret_file(file);
  if (!text) return make_error(text.error());
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  const auto wrong = [&file](std::string_view what) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: {}. Restore the file from a copy, or move its folder away to start a new cluster.",
                    file.string(), what));
  };
  if (!json.is_object()) return wrong("not the description of a cluster");
  const auto text_at = [&json](const char* key) {
    auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto number_at = [&json](const char* key) {
    auto found = json.find(key);
    return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : uint64_t{0};
  };
  auto id = parse_id<ClusterId>(text_at("id"));
  if (!id) return wrong("its \"id\" is missing or broken");
  ClusterIdentity identity{.name = text_at("name"),
                           .id = *id,
                           .bind = text_at("bind"),
                           .port = static_cast<int>(number_at("port")),
                           .advertise = text_at("address"),
                           .generation = number_at("generation"),
                           .operator_token = text_at("operator_token"),
                           .join_token = text_at("join_token"),
                           .driver_token = text_at("driver_token")};
  if (identity.name.empty()) return wrong("its \"name\" is missing");
  if (identity.port > 65535) return wrong("its \"port\" is out of range");
  return identity;
}

Result<void> save_identity(const std::filesystem::path& file, const ClusterIdentity& identity) {
  const nlohmann::json json{{"name", identity.name},
                            {"id", to_string(identity.id)},
                            {"bind", identity.bind},
                            {"port", identity.port},
                            {"address", identity.advertise},
                            {"generation", identity.generation},
                            {"operator_token", identity.operator_token},
                            {"join_token", identity.join_token},
                            {"driver_token", identity.driver_token}};
  return security::write_secret_file(file, json.dump(2) + "\n");
}

}  // namespace volador::head
