// volador token create | list | revoke.
#pragma once

#include <string>

#include "cli/query_commands.h"

namespace volador::cli {

class TokenCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  bool wants_json() const override;
  Outcome run(const Context& context) override;

 private:
  class Create final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string role_ = "join";
    std::string valid_for_ = "24h";
    std::string note_;
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

  Command* chosen() const;

  Create create_;
  List list_;
  Revoke revoke_;
  CLI::App* create_app_ = nullptr;
  CLI::App* list_app_ = nullptr;
  CLI::App* revoke_app_ = nullptr;
};

}  // namespace volador::cli
