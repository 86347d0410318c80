// volador token create | list | revoke.
#pragma once

#include <string>

#include "cli/commands/query_commands.h"

namespace volador::cli {

class TokenCommand final : public CommandGroup {
 public:
  TokenCommand();
  CLI::App* declare(CLI::App& root) override;

 private:
  class Create final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    Outcome create_for_user(const Context& context, std::chrono::nanoseconds valid_for) const;

    CLI::App* app_ = nullptr;
    std::string role_ = "join";
    std::string valid_for_ = "24h";
    std::string note_;
    std::string user_;
  };
  class List final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;
  };
  class Revoke final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string id_;
  };
};

}  // namespace volador::cli
