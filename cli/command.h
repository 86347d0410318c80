// One subcommand of the volador binary.
#pragma once

#include "cli/outcome.h"
#include "cli/terminal.h"
#include "runtime/paths.h"

namespace CLI {
class App;
}

namespace volador::cli {

class ProcessTitle;

struct Context {
  const Terminal& terminal;
  const Paths& paths;
  ProcessTitle& title;
};

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

 private:
  bool json_ = false;
};

}  // namespace volador::cli
