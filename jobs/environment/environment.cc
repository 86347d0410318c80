#include "jobs/environment/environment.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/quantities.h"
#include "runtime/security/digest.h"
#include "runtime/text.h"

namespace volador::jobs {
namespace {

constexpr std::string_view kForms =
    "host, a file of the code folder (requirements.txt, uv.lock, pyproject.toml, environment.yml), an absolute path of "
    "a virtual environment, a conda environment, a root file system or an image (.tar), docker://registry/name:tag, or "
    "a name from the queue's settings";
constexpr size_t kEnvironmentNameMax = 63;
constexpr std::string_view kImagePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Writes the dependencies of a pyproject.toml (first argument) as a list for pip (second argument).
constexpr std::string_view kProjectScript =
    "import sys\n"
    "try:\n"
    "    import tomllib\n"
    "except ImportError:\n"
    "    from pip._vendor import tomli as tomllib\n"
    "project = tomllib.load(open(sys.argv[1], 'rb')).get('project')\n"
    "if project is None or 'dependencies' in project.get('dynamic', []):\n"
    "    sys.exit('pyproject.toml: pip needs [project] with a list of dependencies; add it, or install uv on the "
    "node')\n"
    "open(sys.argv[2], 'w').write('\\n'.join(project.get('dependencies', [])) + '\\n')\n";

tl::unexpected<Error> bad_environment(std::string_view text, std::string_view rule) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("environment \"{}\": {}", text, rule));
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? "" : std::string(path.substr(0, slash + 1));
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool has_parent_name(std::string_view path) {
  return ("/" + std::string(path) + "/").find("/../") != std::string::npos;
}

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= kEnvironmentNameMax && letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || c == '-' || c == '_' || c == '.'; });
}

// The lines of a list for pip, without comments; continued lines are joined.
std::vector<std::string> list_lines(std::string_view text) {
  std::vector<std::string> lines;
  std::string joined;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (line.ends_with('\r')) line.remove_suffix(1);
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line.remove_suffix(1);
    joined += line;
    if (goes_on && !text.empty()) continue;
    size_t comment = joined.find('#');
    while (comment != std::string::npos && comment > 0 && joined[comment - 1] != ' ' && joined[comment - 1] != '\t')
      comment = joined.find('#', comment + 1);
    const std::string_view clean = trimmed(std::string_view(joined).substr(0, comment));
    if (!clean.empty()) lines.emplace_back(clean);
    joined.clear();
  }
  return lines;
}

// The value of an option: "-r x", "-rx", "--requirement x", "--requirement=x". Empty: another line.
std::string_view option_value(std::string_view line, std::string_view brief, std::string_view full) {
  if (line.starts_with(full)) {
    std::string_view rest = line.substr(full.size());
    if (!rest.starts_with('=') && !rest.starts_with(' ') && !rest.starts_with('\t')) return {};
    rest.remove_prefix(1);
    return trimmed(rest);
  }
  if (line.starts_with(brief) && !line.starts_with("--")) return trimmed(line.substr(brief.size()));
  return {};
}

// The file or folder that a requirement names: "./x[extra]; marker", "name @ file:x". Empty: a package by its name or
// by a URL.
std::string local_path(std::string_view text) {
  if (const size_t marker = text.find(';'); marker != std::string_view::npos) text = trimmed(text.substr(0, marker));
  if (const size_t at = text.find(" @ "); at != std::string_view::npos) text = trimmed(text.substr(at + 3));
  if (const size_t option = text.find(" --"); option != std::string_view::npos) text = trimmed(text.substr(0, option));
  for (const std::string_view scheme : {"file://", "file:"}) {
    if (text.starts_with(scheme)) return std::string(text.substr(scheme.size()));
  }
  if (text.find("://") != std::string_view::npos || text.starts_with("git+")) return {};
  if (text.ends_with(']')) text = text.substr(0, text.find('['));
  const bool archive = text.ends_with(".whl") || text.ends_with(".tar.gz") || text.ends_with(".zip");
  return archive || text == "." || text.find('/') != std::string_view::npos ? std::string(text) : "";
}

Result<LocalReferences> references_of_list(std::string_view text) {
  LocalReferences found;
  for (const std::string& line : list_lines(text)) {
    std::string_view value = option_value(line, "-r", "--requirement");
    if (value.empty()) value = option_value(line, "-c", "--constraint");
    if (!value.empty()) {
      if (value.find("://") == std::string_view::npos) found.lists.emplace_back(value);
      continue;
    }
    if (const auto editable = option_value(line, "-e", "--editable"); !editable.empty()) {
      if (local_path(editable).empty()) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("\"{}\" installs a folder in place, but several jobs share the environment and "
                                    "each has a code folder of its own; write \"{}\" without -e, or remove the line: "
                                    "the command runs in the code folder",
                                    line, editable));
    }
    value = option_value(line, "-f", "--find-links");
    if (value.empty() && line.starts_with('-')) continue;
    if (std::string path = value.empty() ? local_path(line) : std::string(value);
        !path.empty() && path.find("://") == std::string::npos)
      found.contents.push_back(std::move(path));
  }
  return found;
}

// Packages that uv.lock takes from folders: source = { directory = "libs/x" }.
LocalReferences references_of_lock(std::string_view text) {
  LocalReferences found;
  for (const std::string& line : list_lines(text)) {
    if (!line.starts_with("source = {")) continue;
    for (const std::string_view form : {"editable = \"", "directory = \"", "path = \"", "virtual = \""}) {
      const size_t at = line.find(form);
      if (at == std::string::npos) continue;
      const size_t first = at + form.size();
      std::string path = line.substr(first, line.find('"', first) - first);
      if (path != "." && path.find("://") == std::string::npos) found.contents.push_back(std::move(path));
    }
  }
  return found;
}

}  // namespace

Result<Environment> parse_environment(std::string_view text) {
  if (text.empty() || text == "host") return Environment{};
  if (std::ranges::any_of(text, is_control)) return bad_environment(text, "expected text without control characters");
  const auto is = [&](EnvironmentKind kind) { return Environment{.kind = kind, .text = std::string(text)}; };
  for (const std::string_view scheme : {"docker://", "oci:", "docker-archive:", "oci-archive:"}) {
    if (!text.starts_with(scheme)) continue;
    const std::string_view rest = text.substr(scheme.size());
    if (rest.empty() || (scheme != "docker://" && !rest.starts_with('/')))
      return bad_environment(
          text, fmt::format("expected {} after {}", scheme == "docker://" ? "registry/name:tag" : "an absolute path",
                            scheme));
    if (scheme == "docker://" && rest.find('@') != std::string_view::npos &&
        rest.find("@sha256:") == std::string_view::npos)
      return bad_environment(text.substr(0, scheme.size()),
                             "an image has no user and password; put them into ~/.docker/config.json on the nodes");
    return is(EnvironmentKind::kImage);
  }
  if (has_parent_name(text)) return bad_environment(text, "a path cannot contain \"..\"");
  if (text.ends_with('/') && !text.starts_with('/')) return bad_environment(text, fmt::format("expected {}", kForms));
  const std::string_view base = base_name(text);
  if (base == "uv.lock") return is(EnvironmentKind::kUvLock);
  if (base == "pyproject.toml") return is(EnvironmentKind::kProject);
  if (base.ends_with(".txt") || base.ends_with(".in")) return is(EnvironmentKind::kRequirements);
  if (base.ends_with(".yml") || base.ends_with(".yaml")) return is(EnvironmentKind::kConda);
  if (text.starts_with('/')) return is(base.ends_with(".tar") ? EnvironmentKind::kImage : EnvironmentKind::kFolder);
  if (is_name(text)) return is(EnvironmentKind::kName);
  return bad_environment(text, fmt::format("expected {}", kForms));
}

bool is_built(EnvironmentKind kind) {
  return kind == EnvironmentKind::kRequirements || kind == EnvironmentKind::kUvLock ||
         kind == EnvironmentKind::kProject || kind == EnvironmentKind::kConda;
}

std::vector<std::string> code_files_of(const Environment& environment) {
  if (!is_built(environment.kind) || environment.text.starts_with('/')) return {};
  std::string_view text = environment.text;
  while (text.starts_with("./")) text.remove_prefix(2);
  std::vector<std::string> files = {std::string(text)};
  if (environment.kind == EnvironmentKind::kUvLock) files.push_back(folder_of(text) + "pyproject.toml");
  return files;
}

Result<LocalReferences> local_references(EnvironmentKind kind, std::string_view text) {
  if (kind == EnvironmentKind::kRequirements) return references_of_list(text);
  if (kind == EnvironmentKind::kUvLock) return references_of_lock(text);
  return LocalReferences{};
}

Result<std::string> tool_for(const Environment& environment, const BuildTools& tools, std::string_view node) {
  if (environment.kind == EnvironmentKind::kConda) {
    if (!tools.conda.empty()) return std::string(base_name(tools.conda));
    return bad_environment(environment.text,
                           fmt::format("node {} has no conda, mamba or micromamba in its PATH; install micromamba "
                                       "there, or list the packages in a requirements.txt",
                                       node));
  }
  if (tools.python.empty()) {
    return bad_environment(
        environment.text,
        fmt::format("node {} has no python3 in its PATH; install it there, or select other nodes", node));
  }
  if (!tools.uv.empty()) return std::string("uv");
  if (environment.kind != EnvironmentKind::kUvLock) return std::string("pip");
  return bad_environment(environment.text,
                         fmt::format("only uv reads it, and node {} has no uv; run `pip install uv` there, or submit a "
                                     "list made by `uv export -o requirements.txt`",
                                     node));
}

std::string environment_key(EnvironmentKind kind, std::string_view tool, std::string_view python_version,
                            const std::map<std::string, std::string>& contents) {
  std::string all = fmt::format("environment 1\n{}\n{}\n{}\n", static_cast<int>(kind), tool, python_version);
  for (const auto& [name, hash] : contents) all += fmt::format("{} {}\n", hash, name);
  return security::hex(security::sha256(all)).substr(0, 32);
}

std::vector<BuildStep> build_steps(EnvironmentKind kind, std::string_view tool, const BuildTools& tools,
                                   const std::string& file, const std::string& prefix) {
  const std::string python = prefix + "/bin/python";
  if (kind == EnvironmentKind::kConda) {
    if (tool == "micromamba") return {{.words = {tools.conda, "create", "-y", "-p", prefix, "-f", file}}};
    return {{.words = {tools.conda, "env", "create", "-p", prefix, "-f", file}}};
  }
  if (tool == "uv") {
    const auto uv = [&](std::vector<std::string> words) {
      words.insert(words.begin(), tools.uv.begin(), tools.uv.end());
      return words;
    };
    BuildStep create{.words = uv({"venv", "--no-project", "--python", tools.python, prefix})};
    if (kind == EnvironmentKind::kUvLock) {
      return {std::move(create),
              {.words = uv({"sync", "--frozen", "--no-install-project", "--no-editable", "--compile-bytecode"}),
               .variables = {{"UV_PROJECT_ENVIRONMENT", prefix}, {"UV_PYTHON", python}}}};
    }
    return {std::move(create), {.words = uv({"pip", "install", "--python", python, "--compile-bytecode", "-r", file})}};
  }
  const auto install = [&](const std::string& list) {
    return BuildStep{
        .words = {python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-r", list}};
  };
  BuildStep create{.words = {tools.python, "-m", "venv", prefix}};
  if (kind == EnvironmentKind::kRequirements) return {std::move(create), install(file)};
  const std::string list = prefix + "/requirements.txt";
  return {std::move(create), {.words = {python, "-c", std::string(kProjectScript), file, list}}, install(list)};
}

EnvironmentChange change_for_venv(const std::string& prefix) {
  return {.set = {{"VIRTUAL_ENV", prefix}}, .unset = {"PYTHONHOME"}, .path_first = prefix + "/bin"};
}

EnvironmentChange change_for_conda(const std::string& prefix) {
  return {.set = {{"CONDA_PREFIX", prefix}, {"CONDA_DEFAULT_ENV", prefix}},
          .unset = {"PYTHONHOME", "VIRTUAL_ENV"},
          .path_first = prefix + "/bin"};
}

EnvironmentChange change_for_root(const std::vector<std::string>& config) {
  EnvironmentChange change{.set = {{"PATH", std::string(kImagePath)}},
                           .unset = {"PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV",
                                     "CONDA_PREFIX", "CONDA_DEFAULT_ENV"}};
  for (const std::string& pair : config) {
    if (const size_t equals = pair.find('='); equals != std::string::npos && equals > 0)
      change.set[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return change;
}

std::vector<std::string> image_names(const Environment& environment) {
  const std::string& text = environment.text;
  if (!text.starts_with('/')) return {text};
  return {"docker-archive:" + text, "oci-archive:" + text};
}

std::vector<std::string> image_variables(const std::string& config) {
  std::vector<std::string> out;
  try {
    for (const auto& pair : YAML::Load(config)["process"]["env"]) {
      // umoci adds a terminal, and a job has none.
      if (pair.IsScalar() && pair.Scalar() != "TERM=xterm") out.push_back(pair.Scalar());
    }
  } catch (const YAML::Exception&) {
    return {};
  }
  return out;
}

std::vector<std::string> changed(const std::vector<std::string>& variables, const EnvironmentChange& change) {
  std::map<std::string, std::string> all;
  for (const std::string& pair : variables) {
    const size_t equals = pair.find('=');
    if (equals != std::string::npos) all[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  for (const std::string& name : change.unset) all.erase(name);
  for (const auto& [name, value] : change.set) all[name] = value;
  if (!change.path_first.empty()) {
    std::string& path = all["PATH"];
    path = change.path_first + ":" + (path.empty() ? std::string("/usr/bin:/bin") : path);
  }
  std::vector<std::string> out;
  out.reserve(all.size());
  for (const auto& [name, value] : all) out.push_back(name + "=" + value);
  return out;
}

}  // namespace volador::jobs
