#include "experiments/katib/training_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "experiments/config/forms.h"
#include "experiments/katib/object_fields.h"
#include "experiments/katib/resource_kind.h"
#include "runtime/nearest_word.h"

namespace volador::experiments::katib {
namespace {

using yaml::Value;

constexpr int64_t kReplicasMax = 1000;  // Nodes of a job.
constexpr int64_t kProcessesMax = 1024;
constexpr int64_t kGraceMaxS = 24 * 3600;
constexpr int64_t kDeadlineMaxS = int64_t{366} * 24 * 3600;
constexpr int64_t kBackoffMax = 1000;  // Restarts of a job.
constexpr std::string_view kDefaultNamespace = "default";

// Chooses the command of this rank among those of the arguments: for each the rank after its last one, the number of its
// words, and the words.
constexpr std::string_view kChooseByRank =
    R"sh(while [ "$VOLADOR_JOB_RANK" -ge "$1" ]; do shift "$(($2 + 2))"; done; exec "${@:3:$2}")sh";
constexpr std::string_view kRunAsIs = R"sh(exec "$0" "$@")sh";

// "500m", "2", "4Gi", "1.5G", "1e3". No value: another form, or negative.
std::optional<double> quantity(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kSuffixes[] = {{"Ki", 1024.0},
                                                                      {"Mi", 1048576.0},
                                                                      {"Gi", 1073741824.0},
                                                                      {"Ti", 1099511627776.0},
                                                                      {"Pi", 1125899906842624.0},
                                                                      {"n", 1e-9},
                                                                      {"u", 1e-6},
                                                                      {"m", 1e-3},
                                                                      {"k", 1e3},
                                                                      {"M", 1e6},
                                                                      {"G", 1e9},
                                                                      {"T", 1e12},
                                                                      {"P", 1e15}};
  double scale = 1;
  for (const auto& [suffix, factor] : kSuffixes) {
    if (!text.ends_with(suffix)) continue;
    text.remove_suffix(suffix.size());
    scale = factor;
    break;
  }
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = failed == std::errc() && end == text.data() + text.size();
  if (!is_whole || !std::isfinite(number) || number < 0) return std::nullopt;
  return number * scale;
}

struct Amounts {
  double cpus = 0, gpus = 0;
  int64_t memory_bytes = 0;
  std::map<std::string, double> custom;
};

// What one kind of replica runs, and how often.
struct Replica {
  int64_t count = 1;
  std::vector<std::string> words;
  std::map<std::string, std::string> env;
  Amounts amounts;
  std::string directory;
  std::string setup;
  std::string restart_policy;
};

std::string in_quotes(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Replaces $(NAME) by the value of the variable, as Kubernetes does; $$ stands for $, and unknown names stay.
std::string expanded(const std::string& text, const std::map<std::string, std::string>& variables) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool is_dollar = text[at] == '$' && at + 1 < text.size();
    if (is_dollar && text[at + 1] == '$') {
      out += '$';
      at += 2;
      continue;
    }
    const size_t close = is_dollar && text[at + 1] == '(' ? text.find(')', at) : std::string::npos;
    const auto known =
        close == std::string::npos ? variables.end() : variables.find(text.substr(at + 2, close - at - 2));
    if (known == variables.end()) {
      out += text[at++];
      continue;
    }
    out += known->second;
    at = close + 1;
  }
  return out;
}

bool is_below(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) &&
         (folder.ends_with('/') || path[folder.size()] == '/');
}

class JobReader {
 public:
  JobReader(const Value& object, std::string_view primary, std::string_view path, Findings& findings)
      : primary_(primary), findings_(findings), object_(&object, std::string(path), findings) {}

  v1::JobSpec read() {
    if (!object_.is_given()) return {};
    const Value* kind = object_.take("kind");
    const Value* version = object_.take("apiVersion");
    read_metadata();
    object_.ignore({"status"});
    if (!check_kind(kind, version)) return {};
    ObjectFields spec = object_.object("spec");
    if (!spec.is_given()) {
      object_.require("spec");
      return {};
    }
    if (kind_ == "Job") read_job(spec);
    if (kind_ == "PyTorchJob") read_pytorch_job(spec);
    if (kind_ == "TFJob") read_tf_job(spec);
    if (kind_ == "MPIJob") read_mpi_job(spec);
    if (kind_ == "TrainJob") read_train_job(spec);
    spec.finish();
    object_.finish();
    if (!primary_.empty() && !containers_.empty() && !containers_.contains(primary_)) {
      findings_.error(object_.path(), kind->place,
                      fmt::format("no container has the name {} of primaryContainerName; the containers are {}{}",
                                  primary_, fmt::join(containers_, ", "),
                                  did_you_mean(primary_, std::vector(containers_.begin(), containers_.end()))));
    }
    warn_of_volumes();
    return finished();
  }

 private:
  // ---- parts that the kinds share ----

  void read_metadata() {
    ObjectFields metadata = object_.object("metadata");
    name_ = metadata.text("name").value_or("");
    namespace_ = metadata.text("namespace").value_or("");
    // Checked by the reader of resources.
  }

  bool check_kind(const Value* kind, const Value* version) {
    std::vector<std::string> names;
    for (const ResourceKind& one : resource_kinds())
      if (one.is_training) names.emplace_back(one.name);
    if (kind == nullptr) {
      object_.require("kind", fmt::format("one of {}", fmt::join(names, ", ")));
      return false;
    }
    const ResourceKind* known = kind->is_text() ? resource_kind(kind->text) : nullptr;
    if (known == nullptr || !known->is_training) {
      object_.error("kind", kind,
                    fmt::format("expected one of {}, got {}{}", fmt::join(names, ", "), shown(*kind),
                                kind->is_text() ? did_you_mean(kind->text, names) : ""));
      return false;
    }
    kind_ = known->name;
    if (version == nullptr) {
      object_.require("apiVersion", fmt::format("for kind {} it is {}", kind_, known->api_versions.front()));
      return false;
    }
    if (version->is_text() && std::ranges::find(known->api_versions, version->text) != known->api_versions.end())
      return true;
    object_.error(
        "apiVersion", version,
        fmt::format("expected {} for kind {}, got {}", fmt::join(known->api_versions, " or "), kind_, shown(*version)));
    return false;
  }

  void read_run_policy(ObjectFields& policy) {
    policy.ignore({"cleanPodPolicy", "ttlSecondsAfterFinished", "managedBy"});
    if (const auto limit = policy.whole_number("backoffLimit", 0, kBackoffMax)) backoff_limit_ = *limit;
    read_deadline(policy);
    refuse_suspension(policy);
  }

  void read_deadline(ObjectFields& fields) {
    const auto deadline = fields.whole_number("activeDeadlineSeconds", 1, kDeadlineMaxS);
    if (!deadline) return;
    const int64_t present = job_.duration_s();
    job_.set_duration_s(present == 0 ? *deadline : std::min(present, *deadline));
  }

  static void refuse_suspension(ObjectFields& fields) {
    const Value* value = fields.take("suspend");
    if (fields.boolean("suspend").value_or(false))
      fields.error("suspend", value, "a suspended job is not supported; apply it when it shall run");
  }

  void read_scheduling(ObjectFields policy) {
    policy.ignore({"minAvailable", "queue", "minResources", "scheduleTimeoutSeconds"});
    read_priority(policy, "priorityClass");
    policy.finish();
  }

  void read_priority(ObjectFields& fields, std::string_view key) {
    const Value* value = fields.take(key);
    const auto name = fields.text(key);
    if (!name || name->empty()) return;
    if (*name == "very-urgent" || *name == "very_urgent") {
      job_.set_priority("very_urgent");
    } else if (*name == "urgent" || *name == "high" || name->ends_with("high-priority")) {
      if (job_.priority() != "very_urgent") job_.set_priority("urgent");
    } else if (*name != "normal" && *name != "default" && *name != "low") {
      findings_.warning(fields.path(key), value->place,
                        fmt::format("the class {} counts as normal; the priorities are normal, urgent and very-urgent",
                                    shown(*value)));
    }
  }

  // A pod: `usual`: the name of its training container. `needs_command`: false for replicas that only wait.
  Replica read_pod(ObjectFields pod_template, std::string_view usual, bool needs_command = true) {
    Replica replica;
    if (!pod_template.is_given()) {
      findings_.error(pod_template.path(), pod_template.place().is_known() ? pod_template.place() : object_.place(),
                      "is required; add the pod with its container");
      return replica;
    }
    pod_template.ignore({"metadata"});
    ObjectFields pod = pod_template.object("spec");
    if (!pod.is_given()) pod_template.require("spec", "add the pod with its container");
    pod.ignore({"imagePullSecrets",
                "tolerations",
                "affinity",
                "serviceAccount",
                "serviceAccountName",
                "securityContext",
                "hostNetwork",
                "hostPID",
                "hostIPC",
                "hostUsers",
                "dnsPolicy",
                "dnsConfig",
                "schedulerName",
                "topologySpreadConstraints",
                "automountServiceAccountToken",
                "enableServiceLinks",
                "hostname",
                "subdomain",
                "hostAliases",
                "runtimeClassName",
                "shareProcessNamespace",
                "preemptionPolicy",
                "priority",
                "readinessGates",
                "os",
                "setHostnameAsFQDN",
                "overhead",
                "ephemeralContainers",
                "resourceClaims",
                "schedulingGates"});
    replica.restart_policy = pod.one_of("restartPolicy", {"Never", "OnFailure", "Always"}).value_or("");
    read_priority(pod, "priorityClassName");
    read_deadline(pod);
    if (const auto grace = pod.whole_number("terminationGracePeriodSeconds", 0, kGraceMaxS); grace && *grace > 0)
      job_.set_graceful_s(std::max(job_.graceful_s(), *grace));
    read_nodes(pod);
    pod.each("volumes", [&](const Value& volume, const std::string& at) {
      ObjectFields fields(&volume, at, findings_);
      const std::string name = fields.text("name").value_or("");
      const Value* host = fields.take("hostPath");
      const Value* host_path = host != nullptr && host->is_map() ? host->find("path") : nullptr;
      volumes_[name] = host_path != nullptr && host_path->is_text() ? host_path->text : "";
    });
    pod.each("initContainers", [&](const Value& container, const std::string& at) {
      const Container one = read_container(ObjectFields(&container, at, findings_), true);
      std::string line;
      for (const auto& [name, value] : one.env) line += fmt::format("{}={} ", name, in_quotes(value));
      for (const std::string& word : one.words) line += in_quotes(word) + " ";
      if (!line.empty()) line.pop_back();
      replica.setup += (replica.setup.empty() ? "" : " && ") + line;
    });
    read_containers(pod, usual, needs_command, replica);
    pod.finish();
    pod_template.finish();
    return replica;
  }

  struct Container {
    std::string name;
    std::vector<std::string> words;
    std::map<std::string, std::string> env;
    Amounts amounts;
    std::string directory;
  };

  void read_containers(ObjectFields& pod, std::string_view usual, bool needs_command, Replica& replica) {
    const Value* containers = pod.take("containers");
    if (containers == nullptr || !containers->is_list() || containers->items.empty()) {
      if (pod.is_given()) pod.error("containers", containers, "expected at least one container");
      return;
    }
    const auto name_of = [](const Value& container) {
      const Value* name = container.find("name");
      return name != nullptr && name->is_text() ? name->text : std::string();
    };
    size_t chosen = 0;
    for (const std::string_view wanted : {usual, std::string_view(primary_)}) {
      for (size_t i = 0; i < containers->items.size() && !wanted.empty(); ++i)
        if (name_of(containers->items[i]) == wanted) chosen = i;
    }
    std::set<std::string> names;
    for (size_t i = 0; i < containers->items.size(); ++i) {
      const std::string at = path_of_item(pod.path("containers"), i);
      const Container one =
          read_container(ObjectFields(&containers->items[i], at, findings_), needs_command && i == chosen);
      if (!one.name.empty() && !names.insert(one.name).second)
        findings_.error(path_below(at, "name"), containers->items[i].place,
                        fmt::format("{} is the name of two containers; change one", one.name));
      if (i != chosen) {
        findings_.warning(
            at, containers->items[i].place,
            fmt::format("the container {} is not run; only {} is", one.name, name_of(containers->items[chosen])));
        continue;
      }
      replica.words = one.words;
      replica.env = one.env;
      replica.amounts = one.amounts;
      replica.directory = one.directory;
    }
    containers_.insert(names.begin(), names.end());
  }

  Container read_container(ObjectFields fields, bool needs_command) {
    Container container;
    container.name = fields.text("name").value_or("");
    if (container.name.empty() && fields.is_given() && fields.take("name") == nullptr) fields.require("name");
    warn_of_image(fields);
    fields.ignore({"imagePullPolicy", "ports", "securityContext", "livenessProbe", "readinessProbe", "startupProbe",
                   "lifecycle", "stdin", "stdinOnce", "tty", "terminationMessagePath", "terminationMessagePolicy",
                   "volumeDevices", "restartPolicy", "resizePolicy"});
    container.env = read_env(fields);
    for (const char* key : {"command", "args"})
      for (const std::string& word : fields.texts(key)) container.words.push_back(expanded(word, container.env));
    if (container.words.empty() && needs_command && fields.is_given())
      fields.require("command", "no image provides one, so add the command that trains");
    if (fields.take("command") == nullptr && fields.take("args") != nullptr && needs_command) {
      fields.error("args", fields.take("args"), "has no command before it, and no image provides one; add the command");
    }
    container.directory = fields.text("workingDir").value_or("");
    if (!container.directory.empty() && !container.directory.starts_with('/'))
      fields.error("workingDir", fields.take("workingDir"),
                   fmt::format("expected an absolute path, got {}", shown(*fields.take("workingDir"))));
    container.amounts = read_resources_of(fields.object("resources"));
    fields.each("volumeMounts", [&](const Value& mount, const std::string& at) {
      ObjectFields one(&mount, at, findings_);
      mounts_.push_back({one.text("name").value_or(""), one.text("mountPath").value_or(""), at, mount.place});
    });
    fields.finish();
    return container;
  }

  void warn_of_image(ObjectFields& fields) {
    const Value* image = fields.take("image");
    fields.text("image");
    if (image == nullptr || std::exchange(told_of_image_, true)) return;
    findings_.warning(fields.path("image"), image->place,
                      "images are not used: commands run in the environment of the node, in a copy of the code folder");
  }

  std::map<std::string, std::string> read_env(ObjectFields& fields) {
    std::map<std::string, std::string> env;
    fields.each("env", [&](const Value& variable, const std::string& at) {
      ObjectFields one(&variable, at, findings_);
      const auto name = one.text("name");
      const auto value = one.text("value");
      const Value* source = one.take("valueFrom");
      one.finish();
      if (!name || name->empty() || name->find('=') != std::string::npos) {
        if (one.is_given()) one.error("name", &variable, "expected the name of a variable, without =");
        return;
      }
      if (source == nullptr) {
        env[*name] = expanded(value.value_or(""), env);
        return;
      }
      const std::string field = field_reference(*source);
      if (field == "metadata.name") {
        env[*name] = name_;
      } else if (field == "metadata.namespace") {
        env[*name] = namespace_.empty() ? std::string(kDefaultNamespace) : namespace_;
      } else {
        one.error("valueFrom", source,
                  "is not supported, except fieldRef of metadata.name and metadata.namespace; give the value itself");
      }
    });
    if (const Value* from = fields.take("envFrom"); from != nullptr && (!from->is_list() || !from->items.empty()))
      fields.error("envFrom", from, "is not supported; give the variables themselves in env");
    return env;
  }

  static std::string field_reference(const Value& source) {
    const Value* reference = source.find("fieldRef");
    const Value* field = reference == nullptr ? nullptr : reference->find("fieldPath");
    return field != nullptr && field->is_text() ? field->text : "";
  }

  Amounts read_resources_of(ObjectFields resources) {
    Amounts amounts;
    // Limits are read first: the request of CPUs counts where there are both, and the limit of memory.
    for (const std::string_view key : {"limits", "requests"}) {
      const Value* map = resources.take(key);
      ObjectFields fields(map, resources.path(key), findings_);
      if (!fields.is_given()) continue;
      for (const yaml::Entry& entry : map->entries) {
        const auto text = scalar_text(entry.value);
        const auto amount = text ? quantity(*text) : std::nullopt;
        if (!amount) {
          fields.error(entry.key, &entry.value,
                       fmt::format("expected an amount such as 2, 500m or 4Gi, got {}", shown(entry.value)));
          continue;
        }
        add_amount(entry, *amount, key == "requests", fields, amounts);
      }
    }
    resources.ignore({"claims"});
    resources.finish();
    return amounts;
  }

  void add_amount(const yaml::Entry& entry, double amount, bool is_request, ObjectFields& fields, Amounts& amounts) {
    const std::string& name = entry.key;
    if (name == "cpu") {
      if (is_request || amounts.cpus == 0) amounts.cpus = amount;
    } else if (name == "memory") {
      if (!is_request || amounts.memory_bytes == 0) amounts.memory_bytes = static_cast<int64_t>(std::min(amount, 9e18));
    } else if (name == "nvidia.com/gpu" || name == "amd.com/gpu") {
      if (std::trunc(amount) != amount) {
        fields.error(name, &entry.value, fmt::format("expected a whole number, got {}", shown(entry.value)));
      } else {
        amounts.gpus = std::max(amounts.gpus, amount);
      }
    } else if (name != "ephemeral-storage" && !name.starts_with("hugepages-") && name.find('/') == std::string::npos) {
      const std::vector<std::string> known{"cpu", "memory", "nvidia.com/gpu", "ephemeral-storage"};
      findings_.error(fields.path(name), entry.place,
                      fmt::format("there is no such resource{}", did_you_mean(name, known)));
    } else if (name.find('/') != std::string::npos) {
      amounts.custom[name] = std::max(amounts.custom[name], amount);
    }
  }

  void read_nodes(ObjectFields& pod) {
    if (const auto node = pod.text("nodeName"); node && !node->empty()) add_node(*node);
    for (const auto& [key, value] : pod.pairs("nodeSelector")) {
      if (key == "kubernetes.io/hostname") {
        add_node(value);
      } else if (key == "pool") {
        job_.set_pool(value);
      } else if (key != "kubernetes.io/os" && key != "kubernetes.io/arch" && !key.starts_with("beta.kubernetes.io/")) {
        (*job_.mutable_labels())[key] = value;
      }
    }
  }

  void add_node(const std::string& name) {
    if (std::ranges::find(job_.node_names(), name) == job_.node_names().end()) job_.add_node_names(name);
  }

  void warn_of_volumes() {
    for (const Mount& mount : mounts_) {
      const auto volume = volumes_.find(mount.volume);
      const bool is_there = mount.path == "/dev/shm" || (volume != volumes_.end() && volume->second == mount.path);
      if (is_there) continue;
      findings_.warning(mount.at, mount.place,
                        fmt::format("{} is not mounted: the command sees the files of its node", mount.path));
      return;  // Once a resource.
    }
  }

  // ---- kinds ----

  void read_job(ObjectFields& spec) {
    spec.ignore({"ttlSecondsAfterFinished", "selector", "manualSelector", "podFailurePolicy", "podReplacementPolicy",
                 "backoffLimitPerIndex", "maxFailedIndexes", "successPolicy", "managedBy"});
    const int64_t completions = spec.whole_number("completions", 1, kReplicasMax).value_or(1);
    const int64_t parallelism = spec.whole_number("parallelism", 1, kReplicasMax).value_or(1);
    const bool is_indexed = spec.one_of("completionMode", {"NonIndexed", "Indexed"}) == "Indexed";
    if (spec.take("completions") != nullptr && completions != parallelism) {
      spec.error("completions", spec.take("completions"),
                 fmt::format("expected parallelism ({}), because all pods of a job start together; got {}", parallelism,
                             completions));
    }
    read_run_policy(spec);
    Replica replica = read_pod(spec.object("template"), "");
    replica.count = parallelism;
    if (is_indexed) exports_.push_back(R"(JOB_COMPLETION_INDEX="$VOLADOR_JOB_RANK")");
    job_.set_max_restarts(static_cast<int>(backoff_limit_.value_or(kBackoffLimitDefault)));
    replicas_.push_back(std::move(replica));
  }

  // The replicas of one kind of a Kubeflow job; no value: it has none.
  std::optional<Replica> read_replicas(ObjectFields& specs, std::string_view type, std::string_view usual,
                                       int64_t count_max = kReplicasMax, bool needs_command = true) {
    if (specs.take(type) == nullptr) return std::nullopt;
    ObjectFields fields = specs.object(type);
    const int64_t count = fields.whole_number("replicas", 0, count_max).value_or(1);
    const auto policy = fields.one_of("restartPolicy", {"Never", "OnFailure", "Always", "ExitCode"});
    Replica replica = read_pod(fields.object("template"), usual, needs_command);
    if (policy) replica.restart_policy = *policy;
    replica.count = count;
    fields.finish();
    if (count == 0) return std::nullopt;
    return replica;
  }

  // Restarts of a Kubeflow job: none where no replica restarts.
  void set_restarts() {
    const bool restarts =
        std::ranges::any_of(replicas_, [](const Replica& replica) { return replica.restart_policy != "Never"; });
    const int64_t limit = restarts ? backoff_limit_.value_or(kBackoffLimitDefault) : 0;
    job_.set_max_restarts(static_cast<int>(limit));
  }

  void read_kubeflow_policy(ObjectFields& spec) {
    if (spec.take("runPolicy") != nullptr) {
      ObjectFields policy = spec.object("runPolicy");
      read_run_policy(policy);
      read_scheduling(policy.object("schedulingPolicy"));
      policy.finish();
    }
    // Older resources have its keys in spec.
    read_run_policy(spec);
  }

  ObjectFields replica_specs(ObjectFields& spec, std::string_view key) {
    ObjectFields specs = spec.object(key);
    if (!specs.is_given() && spec.take(key) == nullptr) spec.require(key);
    return specs;
  }

  void require_replicas(const ObjectFields& specs, std::string_view types) {
    if (!specs.is_given() || !replicas_.empty()) return;
    findings_.error(specs.path(), specs.place(), fmt::format("expected replicas of {}", types));
  }

  // What programs under torchrun read. `processes`: of a replica; empty: as many as it has GPUs, at least one.
  void export_torch(const std::string& processes) {
    double gpus = 0;
    for (const Replica& replica : replicas_) gpus = std::max(gpus, replica.amounts.gpus);
    const std::string count =
        processes.empty() ? fmt::format("{}", std::max<int64_t>(1, std::llround(gpus))) : processes;
    exports_.insert(exports_.end(),
                    {R"(PET_NNODES="$VOLADOR_JOB_NODES")", R"(PET_NODE_RANK="$RANK")", "PET_NPROC_PER_NODE=" + count,
                     R"(PET_MASTER_ADDR="$MASTER_ADDR")", R"(PET_MASTER_PORT="$MASTER_PORT")"});
  }

  // A number of processes, or auto, cpu, gpu. Empty: absent.
  std::string processes_of(ObjectFields& fields, std::string_view key) {
    const Value* value = fields.take(key);
    if (value == nullptr) return {};
    if (value->is_text() && (value->text == "auto" || value->text == "cpu" || value->text == "gpu")) return value->text;
    const auto number = fields.whole_number(key, 1, kProcessesMax);
    return number ? fmt::format("{}", *number) : "";
  }

  void read_pytorch_job(ObjectFields& spec) {
    job_.set_mode("torch");
    ObjectFields specs = replica_specs(spec, "pytorchReplicaSpecs");
    for (const char* type : {"Master", "Worker"}) {
      auto replica = read_replicas(specs, type, "pytorch", std::string_view(type) == "Master" ? 1 : kReplicasMax);
      if (replica) replicas_.push_back(std::move(*replica));
    }
    specs.finish();
    require_replicas(specs, "Master or Worker");
    read_kubeflow_policy(spec);
    set_restarts();
    const std::string processes = processes_of(spec, "nprocPerNode");
    const std::string elastic_processes = read_elastic_policy(spec.object("elasticPolicy"));
    export_torch(processes.empty() ? elastic_processes : processes);
    const bool is_counted = !processes.empty() && processes.find_first_not_of("0123456789") == std::string::npos;
    if (is_counted && processes != "1")
      exports_.push_back(fmt::format("WORLD_SIZE=$((VOLADOR_JOB_NODES * {}))", processes));
    extra_env_["PYTHONUNBUFFERED"] = "1";
  }

  std::string read_elastic_policy(ObjectFields policy) {
    if (!policy.is_given()) return {};
    policy.ignore({"metrics", "rdzvPort", "rdzvHost", "standalone"});
    int64_t others = 0, workers = 0;
    for (const Replica& replica : replicas_) {
      others += std::exchange(workers, replica.count);
    }
    const int64_t most = policy.whole_number("maxReplicas", 1, kReplicasMax).value_or(workers);
    const int64_t least = policy.whole_number("minReplicas", 1, kReplicasMax).value_or(most);
    if (least > most) {
      policy.error("minReplicas", policy.take("minReplicas"),
                   fmt::format("expected at most maxReplicas ({}), got {}", most, least));
    } else if (!replicas_.empty()) {
      replicas_.back().count = most;
      if (least < most) job_.set_min_nodes(static_cast<int>(others + least));
    }
    exports_.push_back(fmt::format("PET_RDZV_BACKEND={}", in_quotes(policy.text("rdzvBackend").value_or("c10d"))));
    exports_.push_back(R"(PET_RDZV_ENDPOINT="$MASTER_ADDR:$MASTER_PORT")");
    exports_.push_back(fmt::format("PET_RDZV_ID={}", in_quotes(policy.text("rdzvId").value_or(name_))));
    std::vector<std::string> settings;
    policy.each("rdzvConf", [&](const Value& one, const std::string& at) {
      ObjectFields setting(&one, at, findings_);
      settings.push_back(fmt::format("{}={}", setting.text("key").value_or(""), setting.text("value").value_or("")));
    });
    if (!settings.empty())
      exports_.push_back(fmt::format("PET_RDZV_CONF={}", in_quotes(fmt::format("{}", fmt::join(settings, ",")))));
    if (const auto restarts = policy.whole_number("maxRestarts", 0, kBackoffMax))
      exports_.push_back(fmt::format("PET_MAX_RESTARTS={}", *restarts));
    const std::string processes = processes_of(policy, "nProcPerNode");
    policy.finish();
    return processes;
  }

  void read_tf_job(ObjectFields& spec) {
    job_.set_mode("tensorflow");
    ObjectFields specs = replica_specs(spec, "tfReplicaSpecs");
    if (const Value* evaluator = specs.take("Evaluator")) {
      specs.error("Evaluator", evaluator,
                  "evaluators are not supported; let the chief evaluate, or apply a job of its own for it");
    }
    if (auto servers = read_replicas(specs, "PS", "tensorflow")) {
      job_.set_parameter_servers(static_cast<int>(servers->count));
      replicas_.push_back(std::move(*servers));
    }
    for (const char* type : {"Chief", "Master", "Worker"}) {
      auto replica = read_replicas(specs, type, "tensorflow", std::string_view(type) == "Worker" ? kReplicasMax : 1);
      if (replica) replicas_.push_back(std::move(*replica));
    }
    specs.finish();
    require_replicas(specs, "PS, Chief or Worker");
    if (job_.parameter_servers() > 0 && replicas_.size() == 1)
      findings_.error(specs.path(), specs.place(), "expected a Chief or a Worker beside the parameter servers");
    read_kubeflow_policy(spec);
    set_restarts();
    spec.ignore({"successPolicy", "enableDynamicWorker"});
  }

  void read_mpi_job(ObjectFields& spec) {
    job_.set_mode("mpi");
    spec.ignore({"slotsPerWorker", "sshAuthMountPath", "launcherCreationPolicy", "runLauncherAsWorker", "mainContainer",
                 "mpiImplementation"});
    ObjectFields specs = replica_specs(spec, "mpiReplicaSpecs");
    auto launcher = read_replicas(specs, "Launcher", primary_, 1);
    auto workers = read_replicas(specs, "Worker", "", kReplicasMax, /*needs_command=*/false);
    specs.finish();
    if (!launcher) {
      if (specs.is_given()) specs.require("Launcher", "its command starts mpirun");
      return;
    }
    Replica nodes = workers ? *workers : *launcher;
    nodes.words = launcher->words;
    nodes.env.insert(launcher->env.begin(), launcher->env.end());
    nodes.directory = launcher->directory;
    nodes.restart_policy = launcher->restart_policy;
    const int64_t slots = spec.whole_number("slotsPerWorker", 1, kProcessesMax).value_or(1);
    if (static_cast<double>(slots) > std::max(1.0, nodes.amounts.gpus))
      extra_env_["OMPI_MCA_rmaps_base_oversubscribe"] = "1";
    replicas_.push_back(std::move(nodes));
    read_kubeflow_policy(spec);
    set_restarts();
  }

  void read_train_job(ObjectFields& spec) {
    const std::string runtime = spec.object("runtimeRef").text("name").value_or("");
    if (spec.take("runtimeRef") == nullptr) spec.require("runtimeRef", "{name: torch-distributed}");
    const bool is_mpi = runtime.find("mpi") != std::string::npos;
    const bool is_deepspeed = runtime.find("deepspeed") != std::string::npos;
    job_.set_mode(is_mpi ? "mpi" : is_deepspeed ? "deepspeed" : "torch");
    spec.ignore({"labels", "annotations", "managedBy"});
    refuse_suspension(spec);
    for (const char* key : {"initializer", "podSpecOverrides", "podTemplateOverrides"}) {
      const Value* value = spec.take(key);
      if (value == nullptr || (value->is_list() && value->items.empty())) continue;
      findings_.warning(spec.path(key), value->place, "is accepted, but has no effect");
    }
    if (spec.take("trainer") == nullptr) {
      spec.require("trainer", "add it with the command that trains");
      return;
    }
    ObjectFields trainer = spec.object("trainer");
    Replica replica;
    replica.count = trainer.whole_number("numNodes", 1, kReplicasMax).value_or(1);
    warn_of_image(trainer);
    replica.env = read_env(trainer);
    for (const char* key : {"command", "args"})
      for (const std::string& word : trainer.texts(key)) replica.words.push_back(expanded(word, replica.env));
    if (trainer.take("command") == nullptr)
      trainer.require("command", "no image provides one, so add the command that trains");
    replica.amounts = read_resources_of(trainer.object("resourcesPerNode"));
    const std::string processes = processes_of(trainer, "numProcPerNode");
    trainer.finish();
    containers_.insert("node");
    containers_.insert("trainer");
    replicas_.push_back(std::move(replica));
    if (!is_mpi && !is_deepspeed) export_torch(processes);
  }

  // ---- the job ----

  v1::JobSpec finished() {
    job_.set_name(name_);
    if (namespace_ != kDefaultNamespace) job_.set_project(namespace_);
    if (job_.mode().empty()) job_.set_mode("single");
    int64_t nodes = 0;
    for (const Replica& replica : replicas_) {
      nodes += replica.count;
      job_.set_cpus(std::max(job_.cpus(), replica.amounts.cpus));
      job_.set_gpus(std::max(job_.gpus(), replica.amounts.gpus));
      job_.set_memory_bytes(std::max(job_.memory_bytes(), replica.amounts.memory_bytes));
      for (const auto& [name, amount] : replica.amounts.custom) {
        double& most = (*job_.mutable_resources())[name];
        most = std::max(most, amount);
      }
      if (job_.directory().empty()) job_.set_directory(replica.directory);
      if (job_.setup().empty()) job_.set_setup(replica.setup);
    }
    if (nodes > kReplicasMax) {
      findings_.error(object_.path(), object_.place(),
                      fmt::format("expected at most {} replicas, got {}", kReplicasMax, nodes));
    }
    job_.set_nodes(static_cast<int>(std::max<int64_t>(1, nodes)));
    job_.set_share_nodes(job_.nodes() > 1);  // As pods do.
    set_variables();
    set_command();
    return std::move(job_);
  }

  // Variables that all replicas have alike are those of the job; the others go before the command.
  void set_variables() {
    if (replicas_.empty()) return;
    std::map<std::string, std::string> common = replicas_.front().env;
    for (const Replica& replica : replicas_) {
      std::erase_if(common, [&](const auto& one) {
        const auto same = replica.env.find(one.first);
        return same == replica.env.end() || same->second != one.second;
      });
    }
    for (Replica& replica : replicas_) {
      std::vector<std::string> own;
      for (const auto& [name, value] : replica.env)
        if (!common.contains(name)) own.push_back(name + "=" + value);
      if (own.empty() || replica.words.empty()) continue;
      own.insert(own.begin(), "env");
      replica.words.insert(replica.words.begin(), own.begin(), own.end());
    }
    for (const auto& [name, value] : extra_env_) common.emplace(name, value);
    for (const auto& [name, value] : common)
      (names_secret(name) ? *job_.mutable_secrets() : *job_.mutable_env())[name] = value;
  }

  void set_command() {
    struct Part {
      int64_t end = 0;  // The rank after its last.
      std::vector<std::string> words;
    };
    std::vector<Part> parts;
    int64_t rank = 0;
    for (const Replica& replica : replicas_) {
      rank += replica.count;
      if (!parts.empty() && parts.back().words == replica.words) {
        parts.back().end = rank;
      } else {
        parts.push_back({rank, replica.words});
      }
    }
    if (parts.empty()) return;
    const auto add = [&](const std::vector<std::string>& words) {
      for (const std::string& word : words) job_.add_command(word);
    };
    if (parts.size() == 1 && exports_.empty()) return add(parts.front().words);
    const std::string exports = exports_.empty() ? "" : fmt::format("export {}; ", fmt::join(exports_, " "));
    const bool is_one = parts.size() == 1;
    add({"bash", "-c", exports + std::string(is_one ? kRunAsIs : kChooseByRank)});
    if (is_one) return add(parts.front().words);
    job_.add_command("bash");
    for (const Part& part : parts) {
      add({fmt::format("{}", part.end), fmt::format("{}", part.words.size())});
      add(part.words);
    }
  }

  struct Mount {
    std::string volume, path, at;
    yaml::Place place;
  };

  const std::string primary_;
  Findings& findings_;
  ObjectFields object_;
  std::string name_, namespace_;
  std::string_view kind_;
  v1::JobSpec job_;
  std::vector<Replica> replicas_;     // In the order of ranks.
  std::vector<std::string> exports_;  // NAME=VALUE for bash, on each node.
  std::map<std::string, std::string> extra_env_;
  std::optional<int64_t> backoff_limit_;
  std::set<std::string> containers_;
  std::map<std::string, std::string> volumes_;  // Path on the node, of volumes that are folders of it.
  std::vector<Mount> mounts_;
  bool told_of_image_ = false;
};

}  // namespace

v1::JobSpec read_training_job(const Value& object, std::string_view primary_container, std::string_view path,
                              Findings& findings) {
  return JobReader(object, primary_container, path, findings).read();
}

Result<v1::JobSpec> job_of(const Value& object, std::string_view primary_container,
                           std::vector<std::string>* warnings) {
  Findings findings;
  v1::JobSpec job = read_training_job(object, primary_container, "", findings);
  if (!findings.errors().empty()) return make_error(ErrorCode::kInvalidArgument, findings.errors().front().text());
  if (warnings != nullptr)
    for (const Finding& warning : findings.warnings()) warnings->push_back(warning.text());
  return job;
}

void add_code(const std::string& files_sha256, v1::JobSpec& job) {
  job.set_files_sha256(files_sha256);
  const std::string directory = job.directory();
  if (!directory.starts_with('/')) return;
  for (std::string& word : *job.mutable_command())
    if (is_below(word, directory)) word = word.substr(directory.size() + (directory.ends_with('/') ? 0 : 1));
  job.clear_directory();
}

}  // namespace volador::experiments::katib
