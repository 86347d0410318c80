// Environment of a job's commands: what the text of JobSpec.environment means, how an environment is built from a file
// of the code folder, and which built ones are removed.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::jobs {

enum class EnvironmentKind : uint8_t {
  kHost,          // That of the node.
  kRequirements,  // A file for pip: *.txt, *.in.
  kUvLock,        // uv.lock, beside its pyproject.toml.
  kProject,       // pyproject.toml.
  kConda,         // environment.yml.
  kFolder,        // Absolute path: a virtual environment, a conda environment or the files of an image.
  kImage,         // An archive of an image, an OCI layout or an image of a registry.
  kName,          // An entry of the queue's settings.
};

struct Environment {
  EnvironmentKind kind = EnvironmentKind::kHost;
  std::string
      text;  // Path, name, or image as skopeo names it: "docker-archive:/images/cuda.tar", "docker://host/name:tag".

  bool operator==(const Environment&) const = default;
};

// kInvalidArgument: the text has none of the forms; the message lists them.
Result<Environment> parse_environment(std::string_view text);

// Whether a node builds it from a file that lists packages.
bool is_built(EnvironmentKind kind);

// The files that the code folder must have, relative to it. None for an absolute path and for what is not built.
std::vector<std::string> code_files_of(const Environment& environment);

// What a list of packages takes from the code folder, relative to the list.
struct LocalReferences {
  std::vector<std::string> lists;     // Further lists: -r and -c.
  std::vector<std::string> contents;  // Files and folders that are installed or searched for packages.

  bool operator==(const LocalReferences&) const = default;
};

// kInvalidArgument: it installs a folder in place (-e), which other jobs that use the environment do not have.
Result<LocalReferences> local_references(EnvironmentKind kind, std::string_view text);

// The programs of a node that build environments.
struct BuildTools {
  std::string python;           // Path of python3; empty: none.
  std::string python_version;   // With the implementation and the machine: "cpython 3.11.7 x86_64".
  std::vector<std::string> uv;  // Words that run uv; empty: there is none.
  std::string conda;            // micromamba, mamba or conda; empty: none.
};

// "uv", "pip" or the name of the conda program. kInvalidArgument: the node has none that can build this; the message
// names what to install.
Result<std::string> tool_for(const Environment& environment, const BuildTools& tools, std::string_view node);

// Name of the built environment: a hash of all that decides what is in it. `contents`: by name, the hash of each file.
std::string environment_key(EnvironmentKind kind, std::string_view tool, std::string_view python_version,
                            const std::map<std::string, std::string>& contents);

// A program of the build. It runs in the folder of the list.
struct BuildStep {
  std::vector<std::string> words;
  std::map<std::string, std::string> variables = {};
};

// `tool` as from tool_for. `file`: absolute path of the list; `prefix`: the new environment.
std::vector<BuildStep> build_steps(EnvironmentKind kind, std::string_view tool, const BuildTools& tools,
                                   const std::string& file, const std::string& prefix);

// Changes of the variables of a process.
struct EnvironmentChange {
  std::map<std::string, std::string> set = {};
  std::vector<std::string> unset = {};
  std::string path_first = {};  // Folder in front of PATH; empty: none.

  bool operator==(const EnvironmentChange&) const = default;
};

EnvironmentChange change_for_venv(const std::string& prefix);
EnvironmentChange change_for_conda(const std::string& prefix);
// For a root file system of its own: `config` has the variables of the image. Variables that only make sense with the
// node's files are removed.
EnvironmentChange change_for_root(const std::vector<std::string>& config);

// Names by which skopeo may know the image: an archive has one of two forms.
std::vector<std::string> image_names(const Environment& environment);
// The variables, NAME=VALUE, of the config.json that umoci writes beside an unpacked image; none if it is damaged.
std::vector<std::string> image_variables(const std::string& config);

// `variables`: NAME=VALUE each.
std::vector<std::string> changed(const std::vector<std::string>& variables, const EnvironmentChange& change);

}  // namespace volador::jobs
