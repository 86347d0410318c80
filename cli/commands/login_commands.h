// volador login, logout and whoami.
#pragma once

#include <string>

#include "cli/commands/query_commands.h"
#include "cli/connection.h"
#include "runtime/protocol/volador/v1/users.pb.h"

namespace volador::cli {

// Signs in with a password or by the provider of the cluster, and keeps the token for later commands.
class LoginCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  tl::expected<std::string, Failure> trusted_fingerprint(const Context& context, const SignInPlace& place,
                                                         std::chrono::milliseconds timeout) const;

  tl::expected<v1::LoginReply, Failure> with_password(const Context& context, control::ClusterApi& api,
                                                      std::chrono::seconds valid) const;
  tl::expected<v1::LoginReply, Failure> by_provider(const Context& context, control::ClusterApi& api,
                                                    std::chrono::seconds valid) const;

  std::string user_, password_file_, fingerprint_, valid_for_ = "7d";
  bool provider_ = false;
};

class LogoutCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

class WhoAmICommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

}  // namespace volador::cli
