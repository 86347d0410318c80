#include "cli/commands/resource_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "cli/experiment_calls.h"
#include "cli/render/json_text.h"
#include "cli/render/resource_view.h"
#include "cli/render/table.h"
#include "cli/trial_output.h"
#include "experiments/katib/resource_reader.h"
#include "jobs/job_client.h"
#include "runtime/control/cluster_api.h"
#include "runtime/nearest_word.h"
#include "runtime/paths.h"
#include "runtime/resources.h"
#include "runtime/yaml/reader.h"
#include "runtime/yaml/writer.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
namespace katib = experiments::katib;

constexpr size_t kResourceFileMax = 1 << 20;
constexpr size_t kResourceFilesMax = 1000;
constexpr int64_t kWatchWaitMs = 20'000;
constexpr int kListedResourcesMax = 10'000;
constexpr const char* kUsualNamespace = "default";
constexpr std::string_view kStandardInput = "-";

void declare_files(CLI::App& app, std::vector<std::string>& files) {
  app.add_option("-f,--filename", files,
                 "YAML or JSON file of resources, a folder of such files, or - for the standard "
                 "input; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void declare_namespace(CLI::App& app, std::string& name_space) {
  app.add_option("-n,--namespace", name_space, "Namespace; default by default")->type_name("NAMESPACE");
}

// The files that are named, with those of folders.
tl::expected<std::vector<std::string>, Failure> files_named(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& name : given) {
    std::error_code code;
    if (name == kStandardInput || !fs::is_directory(name, code)) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(name, code)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".yaml" || extension == ".yml" || extension == ".json") inside.push_back(entry.path().string());
    }
    if (inside.empty()) return usage_error(fmt::format("--filename: {} has no file *.yaml, *.yml or *.json", name));
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  if (files.size() > kResourceFilesMax)
    return usage_error(fmt::format("--filename: expected at most {} files, got {}", kResourceFilesMax, files.size()));
  return files;
}

tl::expected<std::string, Failure> text_of_file(const std::string& name) {
  if (name != kStandardInput) {
    auto text = read_file_limited(name, kResourceFileMax);
    if (!text) return fail_here(text.error());
    return std::move(*text);
  }
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (text.size() > kResourceFileMax)
    return usage_error(fmt::format("--filename: expected at most {} bytes of input", kResourceFileMax));
  return text;
}

std::string shown_file(const std::string& file) { return file == kStandardInput ? "stdin" : file; }

// Each line of an error of the head is an error of a resource.
Outcome refuse_resources(const Context& context, const std::string& file, const Error& error, bool json) {
  return refuse_file(context, error, json,
                     [&](auto lines) { return context.terminal.fill("{}: errors in the resources: {}", file, lines); });
}

void print_reading(const Context& context, const experiments::Findings& findings, bool with_warnings) {
  const Terminal& terminal = context.terminal;
  for (const auto& finding : findings.errors())
    terminal.note(fmt::format("{}: {}", terminal.tr("error"), printable(finding.text())));
  if (!with_warnings) return;
  for (const auto& finding : findings.warnings())
    terminal.note(fmt::format("{}: {}", terminal.tr("warning"), printable(finding.text())));
}

Result<v1::ListKatibResourcesReply> list_resources(control::ClusterApi& api,
                                                   const v1::ListKatibResourcesRequest& request) {
  return api.call<v1::ListKatibResourcesReply>("Katib/ListKatibResources", request);
}

// Resources as objects, "yaml" or "json": one as it is, several as a list.
void print_objects(const Terminal& terminal, const std::vector<v1::KatibResource>& resources, bool is_one,
                   const std::string& output) {
  nlohmann::ordered_json json;
  if (is_one && resources.size() == 1) {
    json = resource_object(resources.front());
  } else {
    json = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", nlohmann::ordered_json::array()}};
    for (const v1::KatibResource& resource : resources) json["items"].push_back(resource_object(resource));
  }
  if (output == "json") return terminal.print(text_of(json, 4));
  const auto document =
      yaml::read(text_of(json), "resources", {.bytes = 1 << 30, .values = 100'000'000, .expanded_bytes = 1 << 30});
  terminal.print(document ? yaml::yaml_text(document->root) : text_of(json));
}

// Resources as "get" prints them.
class ResourcePrinter {
 public:
  ResourcePrinter(const Context& context, std::string output, bool namespaces, bool several)
      : context_(context), output_(std::move(output)) {
    options_ = {.namespaces = namespaces, .wide = output_ == "wide", .prefixes = several};
  }

  void print(const std::vector<v1::KatibResource>& resources, bool is_one) {
    const Terminal& terminal = context_.terminal;
    if (output_ == "json" || output_ == "yaml") return print_objects(terminal, resources, is_one, output_);
    if (output_ == "name") {
      for (const v1::KatibResource& one : resources) terminal.print(resource_name(one.kind(), one.name()) + "\n");
      return;
    }
    std::map<std::string, std::vector<v1::KatibResource>> by_kind;
    std::vector<std::string> kinds;
    for (const v1::KatibResource& one : resources) {
      if (!by_kind.contains(one.kind())) kinds.push_back(one.kind());
      by_kind[one.kind()].push_back(one);
    }
    for (const std::string& kind : kinds) {
      if (kind != kinds.front()) terminal.print("\n");
      terminal.print(resource_table(by_kind[kind], unix_ms_of_now(), options_, &widths_[kind]));
    }
  }

  // Changes while they happen: rows without titles, or one object a line.
  void print_change(const v1::KatibResource& resource) {
    const Terminal& terminal = context_.terminal;
    if (output_ == "json" || output_ == "yaml") {
      nlohmann::ordered_json json = resource_object(resource);
      if (resource.deleted()) json["deleted"] = true;
      return terminal.print(text_of(json, -1));
    }
    if (output_ == "name") return terminal.print(resource_name(resource.kind(), resource.name()) + "\n");
    ResourceTableOptions options = options_;
    options.titles = widths_[resource.kind()].empty();
    terminal.print(resource_table({resource}, unix_ms_of_now(), options, &widths_[resource.kind()]));
  }

 private:
  const Context& context_;
  const std::string output_;
  ResourceTableOptions options_;
  std::map<std::string, std::vector<size_t>> widths_;
};

// Prints changes until Ctrl-C. `after`: the version up to which all was printed, the last of it being `printed`.
Outcome watch_resources(control::ClusterApi& api, const v1::ListKatibResourcesRequest& selection, int64_t after,
                        const std::vector<v1::KatibResource>& printed, ResourcePrinter& printer) {
  std::map<std::tuple<std::string, std::string, std::string>, v1::KatibResource> known;
  const auto key_of = [](const v1::KatibResource& one) { return std::tuple(one.kind(), one.namespace_(), one.name()); };
  for (const v1::KatibResource& one : printed) known[key_of(one)] = one;
  v1::WatchKatibResourcesRequest request;
  *request.mutable_selection() = selection;
  request.set_after(after);
  request.set_wait_ms(kWatchWaitMs);
  const auto watched = watch([&]() -> Result<Watch> {
    const auto reply = api.call<v1::ListKatibResourcesReply>("Katib/WatchKatibResources", request);
    if (!reply) return make_error(reply.error());
    std::set<std::tuple<std::string, std::string, std::string>> present;
    for (const v1::KatibResource& resource : reply->resources()) {
      present.insert(key_of(resource));
      const auto found = known.find(key_of(resource));
      if (reply->complete() && found != known.end() && found->second.version() == resource.version()) continue;
      printer.print_change(resource);
      if (resource.deleted()) {
        known.erase(key_of(resource));
      } else {
        known[key_of(resource)] = resource;
      }
    }
    // The head has started since: it does not know what was deleted before.
    if (reply->complete()) {
      for (auto at = known.begin(); at != known.end();) {
        if (present.contains(at->first)) {
          ++at;
          continue;
        }
        at->second.set_deleted(true);
        printer.print_change(at->second);
        at = known.erase(at);
      }
    }
    request.set_after(reply->version());
    return Watch::kNews;
  });
  if (!watched) return fail(watched.error());
  return {};
}

Outcome no_resource(const v1::ListKatibResourcesRequest& request) {
  return fail(
      ExitCode::kNotFound,
      Error{ErrorCode::kNotFound, fmt::format("there is no {} {} in the namespace {}; volador get {} -A lists all",
                                              resource_type(request.kind()), request.name(), request.namespace_(),
                                              resource_type(request.kind()))});
}

// All resources that the requests name; a name without a resource is an error.
tl::expected<std::vector<v1::KatibResource>, Failure> resources_of(
    control::ClusterApi& api, const std::vector<v1::ListKatibResourcesRequest>& requests, int64_t& version) {
  std::vector<v1::KatibResource> resources;
  for (const v1::ListKatibResourcesRequest& request : requests) {
    const auto reply = list_resources(api, request);
    if (!reply) return fail(reply.error());
    if (!request.name().empty() && reply->resources().empty()) return tl::unexpected(no_resource(request).error());
    version = version == 0 ? reply->version() : std::min(version, reply->version());
    resources.insert(resources.end(), reply->resources().begin(), reply->resources().end());
  }
  return resources;
}

std::string nothing_found(const Terminal& terminal, const ResourceSelection& selection) {
  if (selection.all_namespaces()) return terminal.tr("No resources found.");
  return terminal.fill("No resources found in {} namespace.", selection.name_space());
}

}  // namespace

// ---- selection ----

void ResourceSelection::declare(CLI::App& app, bool is_required) {
  auto* words = app.add_option("resource", words_,
                               "KIND, KIND NAME… or KIND/NAME…; kinds are experiment, trial, suggestion, job, "
                               "pytorchjob, tfjob, mpijob and trainjob, several with commas, or all")
                    ->type_name("KIND [NAME]");
  if (is_required) words->required();
  declare_namespace(app, namespace_);
  namespace_ = kUsualNamespace;
}

void ResourceSelection::declare_all_namespaces(CLI::App& app) {
  app.add_flag("-A,--all-namespaces", all_namespaces_, "Of all namespaces");
  app.add_option("-l,--selector", labels_, "KEY=VALUE of a label that they have; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

tl::expected<std::vector<v1::ListKatibResourcesRequest>, Failure> ResourceSelection::requests() const {
  std::map<std::string, std::string> labels;
  for (const std::string& label : labels_) {
    std::istringstream parts(label);
    for (std::string part; std::getline(parts, part, ',');) {
      const size_t equals = part.find('=');
      if (equals == std::string::npos || equals == 0)
        return usage_error(fmt::format("--selector: expected KEY=VALUE, got \"{}\"", part));
      const size_t value = part.find_first_not_of('=', equals);
      labels[part.substr(0, equals)] = value == std::string::npos ? "" : part.substr(value);
    }
  }
  std::vector<v1::ListKatibResourcesRequest> requests;
  const auto add = [&](const std::string& kind, const std::string& name) {
    v1::ListKatibResourcesRequest& request = requests.emplace_back();
    request.set_kind(kind);
    request.set_name(name);
    if (!all_namespaces_) request.set_namespace_(namespace_);
    for (const auto& [key, value] : labels) (*request.mutable_labels())[key] = value;
    request.set_limit(kListedResourcesMax);
  };
  const auto unknown = [](const std::string& text) {
    std::vector<std::string> names = katib::kind_names();
    names.emplace_back("all");
    return usage_error(fmt::format("there is no kind \"{}\"; the kinds are {}{}", text, fmt::join(names, ", "),
                                   did_you_mean(text, names)));
  };
  if (words_.empty()) return requests;
  if (words_.front().find('/') != std::string::npos) {
    for (const std::string& word : words_) {
      const size_t slash = word.find('/');
      if (slash == std::string::npos || slash + 1 == word.size())
        return usage_error(fmt::format("expected KIND/NAME as in the words before, got \"{}\"", word));
      const auto kind = katib::kind_of(word.substr(0, slash));
      if (!kind) return unknown(word.substr(0, slash));
      add(*kind, word.substr(slash + 1));
    }
    return requests;
  }
  std::vector<std::string> kinds;
  std::istringstream parts(words_.front());
  for (std::string part; std::getline(parts, part, ',');) {
    if (part == "all") {
      for (const katib::ResourceKind& kind : katib::resource_kinds()) kinds.emplace_back(kind.name);
      continue;
    }
    const auto kind = katib::kind_of(part);
    if (!kind) return unknown(part);
    kinds.push_back(*kind);
  }
  for (const std::string& kind : kinds) {
    if (words_.size() == 1) add(kind, "");
    for (size_t i = 1; i < words_.size(); ++i) add(kind, words_[i]);
  }
  return requests;
}

// ---- apply ----

CLI::App* ApplyCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "apply", "Create or change resources in the form of Katib and Kubernetes: experiments and training jobs");
  app->footer(
      "Examples:\n"
      "  volador apply -f bayesian-optimization.yaml --code ./mnist\n"
      "  volador apply -f jobs/ -n kubeflow\n"
      "  volador apply -f experiment.yaml --dry-run=server    checks it, and its algorithm, at the head\n"
      "  volador apply -f experiment.yaml --dry-run=client    checks it without a cluster\n"
      "Images are not used: commands run in the environment of the nodes, in a copy of the folder of --code.");
  declare_files(*app, files_);
  declare_namespace(*app, namespace_);
  app->add_option("--dry-run", dry_run_, "Only check: server or client; none by default")
      ->check(CLI::IsMember({"none", "server", "client"}))
      ->type_name("WHERE");
  app->add_option("--code", code_, "Folder with the code of the trials and jobs; it travels to the nodes")
      ->type_name("FOLDER");
  declare_connection(*app, "30s");
  return app;
}

tl::expected<std::vector<ApplyCommand::Given>, Failure> ApplyCommand::read_files(const Context& context) const {
  if (files_.empty())
    return usage_error("apply: which file? Name it with -f, as in `volador apply -f experiment.yaml`");
  const auto names = files_named(files_);
  if (!names) return tl::unexpected(names.error());
  std::vector<Given> files;
  size_t errors = 0;
  for (const std::string& name : *names) {
    auto text = text_of_file(name);
    if (!text) return tl::unexpected(text.error());
    Given given{shown_file(name), std::move(*text), {}};
    const auto reading =
        katib::read_resources(given.text, given.name, namespace_.empty() ? kUsualNamespace : namespace_);
    print_reading(context, reading.findings, dry_run_ == "client");
    errors += reading.findings.errors().size() + reading.findings.errors_left_out();
    for (const katib::Resource& resource : reading.resources) {
      const std::string& name_space = resource.metadata.name_space;
      if (!namespace_.empty() && name_space != namespace_) {
        return usage_error(fmt::format("{}: the namespace of {} is {}, and --namespace is {}; leave one out",
                                       given.name, resource_name(resource.kind, resource.metadata.name), name_space,
                                       namespace_));
      }
      auto& applied = *given.client_reply.add_resources();
      applied.set_kind(resource.kind);
      applied.set_namespace_(name_space);
      applied.set_name(resource.metadata.name);
      applied.set_action("created");
      applied.set_group(std::string(katib::group_of_kind(resource.kind)));
    }
    files.push_back(std::move(given));
  }
  if (errors > 0) {
    const std::string shown = files.size() == 1 ? files.front().name : fmt::format("{}", fmt::join(files_, ", "));
    return fail(ExitCode::kConfig, Error{ErrorCode::kInvalidArgument,
                                         context.terminal.fill("{}: errors in the resources: {}", shown, errors)});
  }
  return files;
}

void ApplyCommand::print_reply(const Context& context, const v1::ApplyKatibResourcesReply& reply,
                               std::string_view suffix) const {
  for (const std::string& warning : reply.warnings())
    context.terminal.note(fmt::format("{}: {}", context.terminal.tr("warning"), printable(warning)));
  if (wants_json()) return context.terminal.print(json_of_reply(reply));
  for (const v1::AppliedKatibResource& one : reply.resources()) {
    context.terminal.print(
        fmt::format("{} {}{}\n", resource_name(one.kind(), one.name()), printable(one.action()), suffix));
  }
}

Outcome ApplyCommand::run(const Context& context) {
  const auto files = read_files(context);
  if (!files) return tl::unexpected(files.error());
  if (dry_run_ == "client") {
    for (const Given& file : *files) print_reply(context, file.client_reply, " (dry run)");
    return {};
  }
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  std::string hash;
  for (const bool is_dry : {true, false}) {
    // All files are checked at the head before the code is sent, which may take long.
    const bool shows = is_dry == (dry_run_ == "server");
    if (!is_dry && dry_run_ == "server") break;
    if (!is_dry && !code_.empty()) {
      auto sent = jobs::JobClient(**api).send_code(code_, {}, [&](int64_t count, int64_t bytes) {
        context.terminal.note(context.terminal.fill("sends {} files, {} packed", count, format_bytes(bytes)));
      });
      if (!sent) return fail(sent.error());
      hash = std::move(*sent);
    }
    for (const Given& file : *files) {
      v1::ApplyKatibResourcesRequest request;
      request.set_yaml(file.text);
      request.set_file_name(file.name);
      request.set_namespace_(namespace_);
      request.set_dry_run(is_dry);
      request.set_files_sha256(hash);
      if (!is_dry) request.set_request_id(jobs::new_request_id());
      const auto reply = (*api)->call<v1::ApplyKatibResourcesReply>("Katib/ApplyKatibResources", request);
      if (!reply && reply.error().code == ErrorCode::kInvalidArgument)
        return refuse_resources(context, file.name, reply.error(), wants_json());
      if (!reply) return fail(reply.error());
      if (shows) print_reply(context, *reply, is_dry ? " (server dry run)" : "");
    }
  }
  return {};
}

// ---- get, watch ----

namespace {

void declare_resource_output(CLI::App& app, std::string& output) {
  app.add_option("-o,--output", output, "yaml, json, name or wide")
      ->check(CLI::IsMember({"yaml", "json", "name", "wide"}))
      ->type_name("FORMAT");
}

Outcome get_resources(const Context& context, control::ClusterApi& api, const ResourceSelection& selection,
                      const std::string& output, bool watches) {
  const auto requests = selection.requests();
  if (!requests) return tl::unexpected(requests.error());
  std::set<std::string> kinds;
  for (const auto& request : *requests) kinds.insert(request.kind());
  if (watches && requests->size() > 1) return usage_error("--watch: name one kind, and at most one resource of it");
  int64_t version = 0;
  const auto resources = resources_of(api, *requests, version);
  if (!resources) return tl::unexpected(resources.error());
  ResourcePrinter printer(context, output, selection.all_namespaces(), kinds.size() > 1);
  const bool is_one = requests->size() == 1 && !requests->front().name().empty();
  const bool is_table = output.empty() || output == "wide";
  if (resources->empty() && is_table) {
    context.terminal.note(nothing_found(context.terminal, selection));
  } else if (!watches || is_table || output == "name") {
    printer.print(*resources, is_one);
  } else {
    for (const v1::KatibResource& one : *resources) printer.print_change(one);
  }
  return watches ? watch_resources(api, requests->front(), version, *resources, printer) : Outcome();
}

}  // namespace

CLI::App* GetCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("get", "List resources: experiments, trials, suggestions and training jobs");
  app->footer(
      "Examples:\n"
      "  volador get experiment -n kubeflow\n"
      "  volador get trial -l katib.kubeflow.org/experiment=bayesian-optimization\n"
      "  volador get experiment bayesian-optimization -o yaml\n"
      "  volador get experiments,trials -A -o wide");
  selection_.declare(*app, true);
  selection_.declare_all_namespaces(*app);
  declare_resource_output(*app, output_);
  app->add_flag("-w,--watch", watch_, "Print changes as they happen, until Ctrl-C");
  declare_connection(*app);
  return app;
}

Outcome GetCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return get_resources(context, **api, selection_, wants_json() ? "json" : output_, watch_);
}

CLI::App* WatchCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("watch", "List resources, and print their changes until Ctrl-C");
  app->footer("Examples:\n  volador watch trial -n kubeflow\n  volador watch experiment bayesian-optimization -o json");
  selection_.declare(*app, true);
  selection_.declare_all_namespaces(*app);
  declare_resource_output(*app, output_);
  declare_connection(*app);
  return app;
}

Outcome WatchCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return get_resources(context, **api, selection_, wants_json() ? "json" : output_, true);
}

// ---- describe ----

CLI::App* DescribeCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("describe", "Show all of a resource: its configuration and its status");
  app->footer(
      "Examples:\n  volador describe experiment bayesian-optimization -n kubeflow\n"
      "  volador describe trial/bayesian-optimization-9h25bvq9");
  selection_.declare(*app, true);
  selection_.declare_all_namespaces(*app);
  declare_connection(*app);
  return app;
}

Outcome DescribeCommand::run(const Context& context) {
  auto requests = selection_.requests();
  if (!requests) return tl::unexpected(requests.error());
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  int64_t version = 0;
  const auto resources = resources_of(**api, *requests, version);
  if (!resources) return tl::unexpected(resources.error());
  if (wants_json()) {
    print_objects(context.terminal, *resources, requests->size() == 1 && !requests->front().name().empty(), "json");
    return {};
  }
  if (resources->empty()) context.terminal.note(nothing_found(context.terminal, selection_));
  for (size_t i = 0; i < resources->size(); ++i)
    context.terminal.print((i == 0 ? "" : "\n\n") + resource_description((*resources)[i]));
  return {};
}

// ---- delete ----

CLI::App* DeleteCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("delete", "Delete resources with their trials and jobs");
  app->footer(
      "Examples:\n  volador delete -f bayesian-optimization.yaml\n"
      "  volador delete experiment bayesian-optimization -n kubeflow");
  selection_.declare(*app, false);
  declare_files(*app, files_);
  app->add_flag("--ignore-not-found", ignore_not_found_, "A resource that is not there is no error");
  declare_yes(*app);
  declare_connection(*app, "30s");
  return app;
}

tl::expected<std::vector<v1::DeleteKatibResourceRequest>, Failure> DeleteCommand::requests() const {
  std::vector<v1::DeleteKatibResourceRequest> requests;
  const auto add = [&](const std::string& kind, const std::string& name_space, const std::string& name) {
    v1::DeleteKatibResourceRequest& request = requests.emplace_back();
    request.set_kind(kind);
    request.set_namespace_(name_space);
    request.set_name(name);
    request.set_request_id(jobs::new_request_id());
  };
  const auto selected = selection_.requests();
  if (!selected) return tl::unexpected(selected.error());
  for (const auto& one : *selected) {
    if (one.name().empty())
      return usage_error(fmt::format("delete: which {}? Name it: volador delete {} NAME", resource_type(one.kind()),
                                     resource_type(one.kind())));
    add(one.kind(), one.namespace_(), one.name());
  }
  const auto files = files_named(files_);
  if (!files) return tl::unexpected(files.error());
  for (const std::string& file : *files) {
    const auto text = text_of_file(file);
    if (!text) return tl::unexpected(text.error());
    const auto documents = yaml::read_documents(*text, shown_file(file));
    if (!documents) return fail(ExitCode::kConfig, Error{ErrorCode::kInvalidArgument, documents.error().text()});
    // A file that is not valid any more still names its resources.
    for (const yaml::Document& document : *documents) {
      const yaml::Value* metadata = document.root.find("metadata");
      const auto text_at = [](const yaml::Value* map, std::string_view key) {
        const yaml::Value* value = map == nullptr ? nullptr : map->find(key);
        return value != nullptr && value->is_text() ? value->text : std::string();
      };
      if (document.root.is_null()) continue;
      const auto kind = katib::kind_of(text_at(&document.root, "kind"));
      const std::string name = text_at(metadata, "name"), name_space = text_at(metadata, "namespace");
      if (!kind || name.empty()) {
        return fail(ExitCode::kConfig, Error{ErrorCode::kInvalidArgument,
                                             fmt::format("expected a resource with its kind and metadata.name ({})",
                                                         document.root.place.text())});
      }
      add(*kind, name_space.empty() ? selection_.name_space() : name_space, name);
    }
  }
  if (requests.empty()) return usage_error("delete: what? Name a kind and a resource, or a file with -f");
  return requests;
}

Outcome DeleteCommand::run(const Context& context) {
  const auto all = requests();
  if (!all) return tl::unexpected(all.error());
  const Terminal& terminal = context.terminal;
  const std::string question = all->size() == 1
                                   ? terminal.fill("Delete {} with its trials and jobs?",
                                                   resource_name(all->front().kind(), all->front().name()))
                                   : terminal.fill("Delete {} resources with their trials and jobs?", all->size());
  if (auto agreed = confirm(context, question); !agreed) return agreed;
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return for_each_of(context, *all, [&](const v1::DeleteKatibResourceRequest& request) -> Result<void> {
    const auto reply = (*api)->call<v1::DeleteKatibResourceReply>("Katib/DeleteKatibResource", request);
    if (!reply && reply.error().code == ErrorCode::kNotFound && ignore_not_found_) return {};
    if (!reply) return make_error(reply.error());
    terminal.print(wants_json()
                       ? json_of_reply(*reply)
                       : fmt::format("{} \"{}\" deleted\n", resource_type(request.kind()), printable(request.name())));
    return {};
  });
}

tl::expected<std::optional<v1::KatibResource>, Failure> find_resource(control::ClusterApi& api, const std::string& text,
                                                                      const std::string& name_space) {
  const size_t slash = text.find('/');
  const auto kind = slash == std::string::npos ? std::nullopt : katib::kind_of(text.substr(0, slash));
  if (!kind) return std::nullopt;
  v1::ListKatibResourcesRequest request;
  request.set_kind(*kind);
  request.set_name(text.substr(slash + 1));
  request.set_namespace_(name_space);
  const auto reply = list_resources(api, request);
  if (!reply) return fail(reply.error());
  if (reply->resources().empty()) return std::nullopt;
  return reply->resources(0);
}

}  // namespace volador::cli
