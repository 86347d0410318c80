// volador user add | list | set | password | delete.
#pragma once

#include <string>

#include "cli/commands/query_commands.h"

namespace volador::cli {

class UserCommand final : public CommandGroup {
 public:
  UserCommand();
  CLI::App* declare(CLI::App& root) override;

 private:
  class Add final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string name_, role_ = "user", full_name_, mail_, password_file_, subject_;
    bool no_password_ = false;
  };
  class List final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;
  };
  class Set final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    CLI::App* app_ = nullptr;
    std::string name_, role_, full_name_, mail_, subject_;
    bool disable_ = false, enable_ = false;
  };
  class Password final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    Outcome change_own(control::ClusterApi& api, const Context& context) const;

    std::string name_, password_file_, old_password_file_;
  };
  class Delete final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string name_;
  };
};

}  // namespace volador::cli
