#include "experiments/launch/trial_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/protocol/volador/v1/experiments.pb.h"

namespace volador::experiments {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

constexpr size_t kVariableMax = 128 * 1024 - 1;  // Linux refuses a process with a longer one, its name included.

Result<Json> parsed(const char* what, const std::string& text) {
  Json json = text.empty() ? Json::object() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return make_error(ErrorCode::kInternal, fmt::format("the head answered a {} of the trial that is no JSON", what));
  return json;
}

// The GPUs that the job may use: their numbers, or their names where they have such.
struct Devices {
  std::vector<int> slots;
  Words names;
};

Devices devices_of(const v1::StartTrialRunReply& run, const TrialNode& node) {
  Devices devices;
  const int count = run.slots() == 0 ? 0 : std::max(run.slots_on_node(), 1);
  if (run.gpu()) {
    std::string_view rest = node.visible_gpus;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(','), rest.size());
      const std::string_view word = rest.substr(0, end);
      int number = 0;
      const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
      if (read.ec == std::errc() && read.ptr == word.data() + word.size()) {
        devices.slots.push_back(number);
      } else if (!word.empty()) {
        devices.names.emplace_back(word);
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  if (static_cast<int>(devices.slots.size()) != count) {
    devices.slots.clear();
    for (int i = 0; i < count; ++i) devices.slots.push_back(i);
  }
  return devices;
}

// Where the processes of a trial meet.
std::string chief_of(const TrialNode& node) {
  if (node.hosts.size() == 1) return "127.0.0.1";
  return node.chief.empty() ? node.hosts.front() : node.chief;
}

Words class_command(const v1::StartTrialRunReply& run, const TrialNode& node) {
  const int slots = std::max(run.slots_on_node(), 1);
  if (node.hosts.size() == 1 && slots == 1) return {"python3", "-m", "volador.determined", "--trial"};
  return {"python3",
          "-m",
          "torch.distributed.run",
          "--nnodes",
          std::to_string(node.hosts.size()),
          "--nproc_per_node",
          std::to_string(slots),
          "--node_rank",
          std::to_string(node.rank),
          "--max_restarts",
          "0",
          "--master_addr",
          chief_of(node),
          "--master_port",
          std::to_string(node.port),
          "-m",
          "volador.determined",
          "--trial"};
}

Words program_command(const v1::StartTrialRunReply& run, const Json& config) {
  Words words(run.command().begin(), run.command().end());
  const bool is_line = words.size() == 1 && config.contains("entrypoint") && config["entrypoint"].is_string();
  if (is_line) words = {"bash", "-c", words.front()};
  return words;
}

}  // namespace

Result<TrialLaunch> make_trial_launch(const v1::StartTrialRunReply& run, const TrialNode& node) {
  if (node.rank < 0 || std::cmp_greater_equal(node.rank, node.hosts.size())) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("rank {} of a trial on {} nodes: ranks are 0 to {}", node.rank, node.hosts.size(),
                                  static_cast<int>(node.hosts.size()) - 1));
  }
  auto config = parsed("configuration", run.config());
  if (!config) return make_error(config.error());
  auto hparams = parsed("set of hyperparameters", run.trial().hparams());
  if (!hparams) return make_error(hparams.error());
  const auto storage = parsed("storage", run.storage());
  if (!storage) return make_error(storage.error());

  TrialLaunch launch;
  launch.command = run.trial_class().empty() ? program_command(run, *config) : class_command(run, node);
  if (launch.command.empty())
    return make_error(ErrorCode::kInternal, fmt::format("the head answered no command for trial {}", run.trial().id()));
  if (node.has_startup_hook) {
    Words words = {"bash", "-c", "set -e; . ./startup-hook.sh; exec \"$@\"", "startup-hook.sh"};
    words.insert(words.end(), launch.command.begin(), launch.command.end());
    launch.command = std::move(words);
  }

  const Devices devices = devices_of(run, node);
  const Json slots(devices.slots);
  const std::string chief = chief_of(node);
  const std::string container = fmt::format("{}.{}", node.job, node.rank);
  auto& env = launch.env;
  env.insert(run.env().begin(), run.env().end());
  if (auto authority = env.extract(kMasterAuthority); !authority.empty()) {
    launch.files["master.pem"] = authority.mapped();
    env["DET_MASTER_CERT_FILE"] = node.info_folder + "/master.pem";
  }
  // The dashboard, which has the HTTP API. The head names it unless it has none.
  const std::string master = env.emplace("DET_MASTER", "https://" + node.address).first->second;
  env["DET_AGENT_ID"] = node.name;
  env["DET_SLOT_IDS"] = slots.dump();
  env["DET_SESSION_TOKEN"] = node.token;
  env["DET_CHIEF_IP"] = chief;
  env["DET_CONTAINER_ID"] = env["DET_RESOURCES_ID"] = container;
  env["DET_WORKDIR"] = node.directory;
  env["VOLADOR_INFO_DIR"] = node.info_folder;
  env["VOLADOR_TRIAL_CONFIG"] = node.info_folder + "/config.json";
  if (!run.trial_class().empty()) env["VOLADOR_TRIAL_CLASS"] = run.trial_class();
  env["MASTER_ADDR"] = chief;
  env["MASTER_PORT"] = std::to_string(node.port);
  // The user's own packages count first, a `determined` among them too.
  if (!node.shims.empty())
    env["PYTHONPATH"] = node.python_path.empty() ? node.shims : fmt::format("{}:{}", node.python_path, node.shims);
  std::erase_if(env, [&](const auto& variable) {
    const bool is_long = variable.first.size() + 1 + variable.second.size() > kVariableMax;
    if (is_long) launch.left_out.push_back(variable.first);
    return is_long;
  });

  const auto from_head = [&](const char* name) {
    const auto found = run.env().find(name);
    return found == run.env().end() ? std::string() : found->second;
  };
  const auto text = [](const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; };
  const std::vector<int> counts(node.hosts.size(), std::max(run.slots_on_node(), 1));
  launch.files["rendezvous.json"] =
      text({{"container_addrs", node.hosts}, {"container_rank", node.rank}, {"container_slot_counts", counts}});
  launch.files["resources.json"] = text({{"gpu_uuids", devices.names}});
  launch.files["trial.json"] = text({{"trial_id", run.trial().id()},
                                     {"experiment_id", run.trial().experiment()},
                                     {"trial_seed", run.trial().seed()},
                                     {"hparams", std::move(*hparams)},
                                     {"config", *config},
                                     {"steps_completed", run.batches()},
                                     {"trial_run_id", run.trial().run()},
                                     {"debug", run.debug()},
                                     {"inter_node_network_interface", nullptr}});
  launch.files["cluster.json"] =
      text({{"master_url", master},
            {"cluster_id", from_head("DET_CLUSTER_ID")},
            {"agent_id", node.name},
            {"slot_ids", slots},
            {"task_id", from_head("DET_TASK_ID")},
            {"allocation_id", from_head("DET_ALLOCATION_ID")},
            {"session_token", node.token},
            {"task_type", "TRIAL"},
            {"latest_checkpoint", run.latest_checkpoint().empty() ? Json() : Json(run.latest_checkpoint())}});
  launch.files["config.json"] = text(*config);
  launch.files["storage.json"] = text(*storage);
  return launch;
}

}  // namespace volador::experiments
