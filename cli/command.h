// One subcommand of the volador binary.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "cli/outcome.h"
#include "cli/render/terminal.h"
#include "runtime/paths.h"

namespace CLI {
class App;
class Validator;
}

namespace volador::cli {

class ProcessTitle;

struct Context {
  const Terminal& terminal;
  const Paths& paths;
  ProcessTitle& title;
};

// For options. CLI11's own name the largest double as the end of their range.
CLI::Validator positive_number();
CLI::Validator number_from_zero();

class Command {
 public:
  virtual ~Command() = default;
  // Adds the subcommand and its flags, which refer to this object, to the binary's.
  virtual CLI::App* declare(CLI::App& root) = 0;
  // Whether the parsed arguments ask for --json.
  virtual bool wants_json() const { return json_; }
  [[nodiscard]] virtual Outcome run(const Context& context) = 0;

 protected:
  void declare_json(CLI::App& app);
  // --wide, for commands that print tables.
  void declare_wide(CLI::App& app);
  // The terminal to print tables to: with --wide its lines have no limit.
  Terminal table_terminal(const Context& context) const;
  // --yes, for commands that ask before they destroy something.
  void declare_yes(CLI::App& app);
  // Asks in a terminal, without --yes. kCancelled, exit code 1: the answer is not yes.
  [[nodiscard]] Outcome confirm(const Context& context, const std::string& question) const;

 private:
  bool json_ = false;
  bool yes_ = false;
  bool wide_ = false;
};

// One that has subcommands: exactly one of them is given, and it is that one.
class CommandGroup : public Command {
 public:
  bool wants_json() const override { return chosen().wants_json(); }
  Outcome run(const Context& context) override { return chosen().run(context); }

 protected:
  // In the order in which help shows them.
  void add(std::unique_ptr<Command> command) { commands_.emplace_back(nullptr, std::move(command)); }
  CLI::App* declare_group(CLI::App& root, const char* name, const char* description);

 private:
  Command& chosen() const;
  std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> commands_;
};

}  // namespace volador::cli
