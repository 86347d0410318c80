// volador group list | create | delete | add | remove.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/query_commands.h"

namespace volador::cli {

class GroupCommand final : public CommandGroup {
 public:
  GroupCommand();
  CLI::App* declare(CLI::App& root) override;

 private:
  class List final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;
  };
  class Create final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string name_, note_;
    std::vector<std::string> users_;
  };
  class Delete final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string name_;
  };
  // Both directions.
  class Members final : public ClusterCommand {
   public:
    explicit Members(bool adds) : adds_(adds) {}
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    const bool adds_;
    std::string name_;
    std::vector<std::string> users_;
  };
};

}  // namespace volador::cli
