#include "jobs/environment/environment_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "jobs/group_spawn.h"
#include "runtime/control/program_transfer.h"
#include "runtime/paths.h"
#include "runtime/security/digest.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;

constexpr size_t kListBytesMax = 16 << 20;

// The interpreter, its version, and whether it can run uv.
constexpr std::string_view kPythonProbe =
    "import importlib.util, platform, sys\n"
    "print(sys.executable)\n"
    "print(sys.implementation.name, platform.python_version(), platform.machine())\n"
    "print(importlib.util.find_spec('uv') is not None)\n";

// Adds the hashes of a file, or of all files of a folder.
Result<void> hash_contents(const fs::path& path, const std::string& name, std::map<std::string, std::string>& out) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) {
    const auto hash = control::sha256_of_file(path);
    if (!hash) return make_error(hash.error());
    out[name] = security::hex(*hash);
    return {};
  }
  for (const auto& child : fs::directory_iterator(path, failed)) {
    const std::string base = child.path().filename().string();
    if (base == ".git" || base == "__pycache__") continue;
    VOLADOR_TRY(hash_contents(child.path(), name + "/" + base, out));
  }
  return {};
}

// Adds the hashes of a list and of what it takes from the code folder.
Result<void> hash_list(EnvironmentKind kind, const fs::path& list, const std::string& name,
                       std::map<std::string, std::string>& out) {
  if (out.contains(name)) return {};
  const auto text = read_file_limited(list, kListBytesMax);
  if (!text) return make_error(text.error());
  out[name] = security::hex(security::sha256(*text));
  const auto references = local_references(kind, *text);
  if (!references)
    return make_error(references.error().code,
                      fmt::format("{}: {}", list.filename().string(), references.error().message));
  const fs::path folder = list.parent_path();
  for (const std::string& each : references->lists) VOLADOR_TRY(hash_list(kind, folder / each, each, out));
  std::error_code failed;
  for (const std::string& each : references->contents) {
    // What is missing is the tool's error.
    if (fs::exists(folder / each, failed)) VOLADOR_TRY(hash_contents(folder / each, each, out));
  }
  return {};
}

// `credentials`: a file, because other users see the words of a running program; empty: none.
std::vector<std::string> skopeo_words(const char* action, const std::string& credentials,
                                      const std::vector<std::string>& more) {
  std::vector<std::string> words = {"skopeo", action};
  if (!credentials.empty()) words.insert(words.end(), {"--authfile", credentials});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Whether the folder has an entry of this name; without a name: whether the path exists.
bool has(const fs::path& folder, const char* name) {
  std::error_code failed;
  return fs::exists(*name == '\0' ? folder : folder / name, failed);
}

// What users read while an environment is built.
StoreWords environment_words(const std::string& note) {
  return {.begins = "building environment " + note,
          .done = "the environment is built",
          .waits = "waiting for another job that builds environment " + note,
          .note = note};
}

}  // namespace

Result<PreparedEnvironment> EnvironmentStore::prepare(const EnvironmentRequest& request) {
  switch (request.environment.kind) {
    case EnvironmentKind::kHost:
      return PreparedEnvironment();
    case EnvironmentKind::kName:
      return make_error(ErrorCode::kNotFound,
                        fmt::format("environment \"{}\": the queue's settings have no environment of this name; name "
                                    "one that they have, or a file of the code folder such as requirements.txt",
                                    request.environment.text));
    case EnvironmentKind::kFolder:
      return prepare_folder(request);
    case EnvironmentKind::kImage:
      return prepare_image(request);
    default:
      return prepare_built(request);
  }
}

Result<PreparedEnvironment> EnvironmentStore::prepare_folder(const EnvironmentRequest& request) const {
  const std::string& text = request.environment.text;
  std::error_code failed;
  const fs::path path = fs::canonical(text, failed);
  if (failed || !fs::is_directory(path, failed)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("environment {}: node {} has no such folder; create it there, or select the nodes "
                                  "that have it with --node or --label",
                                  text, request.node));
  }
  PreparedEnvironment prepared;
  // As it was named: the path of a link stays right when its target is replaced.
  std::string prefix = text;
  while (prefix.size() > 1 && prefix.ends_with('/')) prefix.pop_back();
  if (has(path, "pyvenv.cfg")) {
    prepared.change = change_for_venv(prefix);
    prepared.folder = prefix;
  } else if (has(path, "conda-meta")) {
    prepared.change = change_for_conda(prefix);
    prepared.folder = prefix;
  } else if (fs::is_directory(path / "usr/bin", failed) || has(path, "bin/sh")) {
    prepared.change = change_for_root({});
    prepared.root = path;
  } else {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("environment {}: on node {} it is neither a virtual environment (pyvenv.cfg), nor a "
                                  "conda environment (conda-meta), nor a root file system (usr/bin); name one of these",
                                  text, request.node));
  }
  return prepared;
}

Result<PreparedEnvironment> EnvironmentStore::prepare_built(const EnvironmentRequest& request) {
  const Environment& environment = request.environment;
  const fs::path file = request.base / environment.text;
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("environment {}: node {} has no file {}; submit the job with the code folder that "
                                  "has it",
                                  environment.text, request.node, file.string()));
  }
  const BuildTools tools = find_tools(request);
  if (store_.is_cancelled()) return make_error(ErrorCode::kCancelled, "the job ends");
  const auto tool = tool_for(environment, tools, request.node);
  if (!tool) return make_error(tool.error());
  std::map<std::string, std::string> contents;
  VOLADOR_TRY(hash_list(environment.kind, file, "", contents));
  if (environment.kind == EnvironmentKind::kUvLock)
    VOLADOR_TRY(hash_contents(file.parent_path() / "pyproject.toml", "pyproject.toml", contents));
  const bool conda = environment.kind == EnvironmentKind::kConda;
  const std::string note =
      fmt::format("{} with {}{}", environment.text, *tool, conda ? "" : ", " + tools.python_version);
  const std::vector<std::string> variables = changed(
      request.variables,
      {.unset = {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "UV_PROJECT_ENVIRONMENT", "UV_PYTHON"}});
  const auto build = [&](const fs::path& attempt) -> Result<void> {
    const fs::path log = attempt / "log";
    for (const BuildStep& step :
         build_steps(environment.kind, *tool, tools, file.string(), (attempt / "env").string())) {
      const auto code = store_.run(step.words, changed(variables, {.set = step.variables}), file.parent_path(), log);
      if (!code) return make_error(code.error());
      if (*code == 0) continue;
      store_.say(last_lines(log));
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("environment {}: it cannot be built on node {}: {} ended with exit code {}, its "
                                    "output is above; correct the file, or install what is missing on the node",
                                    environment.text, request.node, *tool, *code));
    }
    return {};
  };
  auto shared = store_.share(environment_key(environment.kind, *tool, tools.python_version, contents),
                             environment_words(note), build);
  if (!shared) return make_error(shared.error());
  PreparedEnvironment prepared;
  prepared.folder = shared->folder();
  prepared.hold = std::move(*shared);
  const std::string prefix = (prepared.folder / "env").string();
  prepared.change = conda ? change_for_conda(prefix) : change_for_venv(prefix);
  return prepared;
}

Result<PreparedEnvironment> EnvironmentStore::prepare_image(const EnvironmentRequest& request) {
  const std::string& text = request.environment.text;
  for (const char* program : {"skopeo", "umoci"}) {
    if (find_program(program, request.variables).empty()) {
      return make_error(ErrorCode::kNotFound, fmt::format("environment {0}: node {1} has no {2} to unpack images; run "
                                                          "`apt-get install {2}` there, or name a folder with the "
                                                          "unpacked files",
                                                          text, request.node, program));
    }
  }
  if (text.starts_with('/') && !has(text, "")) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("environment {}: node {} has no such file; put it there, or select the nodes that "
                                  "have it with --node or --label",
                                  text, request.node));
  }
  const std::string credentials = value_of(request.variables, "HOME") + "/.docker/config.json";
  std::string digest;
  std::string image;
  Error refused;
  for (const std::string& name : image_names(request.environment)) {
    auto words = skopeo_words("inspect", has(credentials, "") ? credentials : "", {"--format", "{{.Digest}}", name});
    const auto said = store_.output_of(words, request.variables);
    if (!said && said.error().code == ErrorCode::kCancelled) return make_error(said.error());
    if (!said) {
      refused = said.error();
      continue;
    }
    for (const std::string& line : lines_in(*said)) {
      if (line.starts_with("sha256:")) digest = line;
    }
    image = name;
    break;
  }
  if (digest.empty()) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("environment {}: node {} cannot read the image: {}; correct the name, or put the "
                                  "credentials of the registry into ~/.docker/config.json there",
                                  text, request.node, refused.message));
  }
  const auto build = [&](const fs::path& attempt) -> Result<void> {
    const fs::path log = attempt / "log";
    const std::string layout = (attempt / "layout").string();
    auto unpack = std::vector<std::string>{"umoci", "unpack", "--image", layout + ":image", (attempt / "env").string()};
    if (::geteuid() != 0) unpack.insert(unpack.begin() + 2, "--rootless");
    for (const std::vector<std::string>& words :
         {skopeo_words("copy", has(credentials, "") ? credentials : "", {image, "oci:" + layout + ":image"}), unpack}) {
      const auto code = store_.run(words, request.variables, attempt, log);
      if (!code) return make_error(code.error());
      if (*code == 0) continue;
      store_.say(last_lines(log));
      return make_error(ErrorCode::kUnavailable,
                        fmt::format("environment {}: it cannot be unpacked on node {}: {} ended with exit code {}, its "
                                    "output is above",
                                    text, request.node, words.front(), *code));
    }
    std::error_code failed;
    fs::remove_all(layout, failed);
    return {};
  };
  auto shared = store_.share(environment_key(EnvironmentKind::kImage, "umoci", "", {{"", digest}}),
                             environment_words(text), build);
  if (!shared) return make_error(shared.error());
  PreparedEnvironment prepared;
  const fs::path bundle = shared->folder() / "env";
  prepared.hold = std::move(*shared);
  const auto config = read_file_limited(bundle / "config.json", kListBytesMax);
  prepared.root = bundle / "rootfs";
  prepared.change = change_for_root(config ? image_variables(*config) : std::vector<std::string>());
  return prepared;
}

BuildTools EnvironmentStore::find_tools(const EnvironmentRequest& request) {
  BuildTools tools;
  if (request.environment.kind == EnvironmentKind::kConda) {
    for (const char* name : {"micromamba", "mamba", "conda"}) {
      tools.conda = find_program(name, request.variables);
      if (!tools.conda.empty()) break;
    }
    return tools;
  }
  const std::vector<std::string> variables = changed(request.variables, {.unset = {"PYTHONHOME"}});
  const auto probed = store_.output_of({"python3", "-c", std::string(kPythonProbe)}, variables);
  const std::vector<std::string> lines = probed ? lines_in(*probed) : std::vector<std::string>();
  if (lines.size() < 3) return tools;
  tools.python = lines[0];
  tools.python_version = lines[1];
  if (std::string uv = find_program("uv", variables); !uv.empty()) {
    tools.uv = {std::move(uv)};
  } else if (lines[2] == "True") {
    tools.uv = {tools.python, "-m", "uv"};
  }
  return tools;
}

}  // namespace volador::jobs
