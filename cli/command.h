// A subcommand of the volador binary.
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
}  // namespace CLI

namespace volador::cli {

class ProcessTitle;

struct Context {
  const Terminal& terminal;
  const Paths& paths;
  ProcessTitle& title;
};

// Validator for options. CLI11's own validator prints the largest double as the end of the range.
CLI::Validator positive_number();
CLI::Validator number_from_zero();

class Command {
 public:
  virtual ~Command() = default;
  // Adds the subcommand and its flags, which refer to this object, to the root command.
  virtual CLI::App* declare(CLI::App& root) = 0;
  // Whether the parsed arguments contain --json.
  virtual bool wants_json() const { return json_; }
  [[nodiscard]] virtual Outcome run(const Context& context) = 0;

 protected:
  void declare_json(CLI::App& app);
  // Declares --wide, for commands that print tables.
  void declare_wide(CLI::App& app);
  // Returns the terminal for tables: with --wide the width of lines is unlimited.
  Terminal table_terminal(const Context& context) const;
  // Declares --yes, for commands that ask for confirmation before destructive actions.
  void declare_yes(CLI::App& app);
  // Asks for confirmation in a terminal, unless --yes is set. kCancelled, exit code 1: the answer is not yes.
  [[nodiscard]] Outcome confirm(const Context& context, const std::string& question) const;

 private:
  bool json_ = false;
  bool yes_ = false;
  bool wide_ = false;
};

// A command with subcommands, exactly one of which must be given and is executed.
class CommandGroup : public Command {
 public:
  bool wants_json() const override { return chosen().wants_json(); }
  Outcome run(const Context& context) override { return chosen().run(context); }

 protected:
  // In the order shown by help.
  void add(std::unique_ptr<Command> command) { commands_.emplace_back(nullptr, std::move(command)); }
  CLI::App* declare_group(CLI::App& root, const char* name, const char* description);

 private:
  Command& chosen() const;
  std::vector<std::pair<CLI::App*, std::unique_ptr<Command>>> commands_;
};

}  // namespace volador::cli
