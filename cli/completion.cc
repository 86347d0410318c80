#include "cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "runtime/nearest_word.h"

namespace volador::cli {

namespace {

constexpr const char* kBash = R"(# bash: volador completion bash > ~/.local/share/bash-completion/completions/volador
_volador() {
  local IFS=$'\n' words line=${COMP_LINE:0:COMP_POINT}
  # The words before the cursor as the shell sees them; '=' and ':' split words of the line but not of the command.
  read -r -a words <<<"${line// /$'\n'}" -d ''
  [[ $line == *' ' ]] && words+=('')
  local current=${words[${#words[@]}-1]}
  COMPREPLY=($("${words[0]}" __complete "${words[@]:1}" 2>/dev/null))
  # What stands before the last '=' is on the line already.
  if [[ $current == *=* && $COMP_WORDBREAKS == *=* ]]; then COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*=}"}"}"); fi
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _volador volador
)";
constexpr const char* kZsh = R"(#compdef volador
# zsh: volador completion zsh > a folder of $fpath, as _volador
_volador() {
  local -a found
  found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  found=(${found:#})
  local -a values flags
  flags=(${(M)found:#*=})
  values=(${found:#*=})
  (( $#flags )) && compadd -S '' -- $flags
  (( $#values )) && compadd -- $values
  (( $#found )) || _files
}
compdef _volador volador
)";
constexpr const char* kFish = R"(# fish: volador completion fish > ~/.config/fish/completions/volador.fish
complete -c volador -f -a '(set -l words (commandline -opc); volador __complete $words[2..-1] (commandline -ct) 2>/dev/null)'
)";

const std::vector<std::string>& shells() {
  static const std::vector<std::string> names{"bash", "zsh", "fish"};
  return names;
}

// The values of a subcommand's first word, or of a flag.
std::vector<std::string> values_of(const std::string& path) {
  if (path == "list")
    return {"nodes",  "actors",  "tasks",   "processes", "groups", "experiments",
            "trials", "studies", "objects", "queue",     "events", "audit"};
  if (path == "completion") return shells();
  if (path == "token create --role") return {"join", "driver", "viewer", "operator"};
  if (path == "tune compare --mode" || path == "tune plot --mode" || path == "tune plot --versus-mode")
    return {"max", "min"};
  if (path == "tune compare --scope" || path == "tune plot --scope") return {"last", "all", "average"};
  if (path == "tune plot --kind") return {"all", "curves", "parallel", "importance", "rungs", "pareto", "gantt"};
  if (path == "tune plot --log") return {"x", "y", "xy"};
  if (path == "study create --searcher")
    return {"random", "grid", "tpe", "gp", "trees", "cmaes", "nsga2", "bohb", "sobol", "halton", "auto"};
  if (path == "study create --scheduler") return {"asha", "median_stopping", "percentile", "wilcoxon"};
  if (path == "study tell --state") return {"complete", "pruned", "fail"};
  if (path == "study show --state") return {"waiting", "running", "complete", "pruned", "fail"};
  if (path == "start --durability") return {"process", "power"};
  if (path == "start --bind") return {"auto", "127.0.0.1"};
  if (path == "start --log-level") return {"debug", "info", "warn", "error"};
  return {};
}

// Position of the words: the innermost subcommand, its path, and the number of following words that are not flags.
struct Place {
  CLI::App* app;
  std::string path;
  size_t arguments = 0;
};

CLI::App* find_subcommand(CLI::App& app, const std::string& name) {
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    if (sub->get_name() == name) return sub;
  return nullptr;
}

Place walk(CLI::App& root, const std::vector<std::string>& words) {
  Place place{.app = &root, .path = ""};
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i].starts_with('-')) continue;
    CLI::App* next = place.arguments == 0 ? find_subcommand(*place.app, words[i]) : nullptr;
    if (next == nullptr) {
      ++place.arguments;
    } else {
      place.app = next;
      place.path += (place.path.empty() ? "" : " ") + words[i];
    }
  }
  return place;
}

}  // namespace

std::vector<std::string> completions(CLI::App& root, const std::vector<std::string>& words) {
  const std::string current = words.empty() ? "" : words.back();
  const Place place = walk(root, words);
  std::vector<std::string> candidates;
  if (current.starts_with('-')) {
    if (const size_t equals = current.find('='); equals != std::string::npos) {
      for (const std::string& value : values_of(place.path + " " + current.substr(0, equals)))
        candidates.push_back(current.substr(0, equals + 1) + value);
    } else {
      for (const CLI::Option* option : place.app->get_options()) {
        if (option->get_lnames().empty()) continue;
        const bool takes_value = option->get_expected_max() > 0;
        candidates.push_back("--" + option->get_lnames().front() + (takes_value ? "=" : ""));
      }
    }
  } else {
    for (const CLI::App* sub : place.app->get_subcommands([](const CLI::App*) { return true; }))
      candidates.push_back(sub->get_name());
    if (place.arguments == 0)
      for (const std::string& value : values_of(place.path)) candidates.push_back(value);
  }
  std::erase_if(candidates, [&](const std::string& candidate) { return !candidate.starts_with(current); });
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

CLI::App* CompletionCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("completion", "Print the completion script of a shell");
  app->footer(
      "Examples:\n  source <(volador completion bash)\n  volador completion fish > "
      "~/.config/fish/completions/volador.fish");
  app->add_option("shell", shell_, "bash, zsh or fish")->required();
  return app;
}

Outcome CompletionCommand::run(const Context& context) {
  if (shell_ == "bash") {
    context.terminal.print(kBash);
  } else if (shell_ == "zsh") {
    context.terminal.print(kZsh);
  } else if (shell_ == "fish") {
    context.terminal.print(kFish);
  } else {
    return usage_error(
        fmt::format("completion: expected bash, zsh or fish, got \"{}\"{}", shell_, did_you_mean(shell_, shells())));
  }
  return {};
}

}  // namespace volador::cli
