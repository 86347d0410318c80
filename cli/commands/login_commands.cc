#include "cli/commands/login_commands.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "cli/password_input.h"
#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "cli/render/user_view.h"
#include "dashboard/operation_json.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/logins.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/quantities.h"
#include "runtime/security/handshake.h"

namespace volador::cli {
namespace {

std::string user_of_machine() {
  const passwd* entry = ::getpwuid(::getuid());
  return entry == nullptr ? "" : entry->pw_name;
}

// "sha256:" and 64 digits.
std::optional<security::Fingerprint> parse_fingerprint(std::string_view text) {
  constexpr std::string_view kPrefix = "sha256:";
  security::Fingerprint out;
  if (!text.starts_with(kPrefix) || text.size() != kPrefix.size() + 2 * out.digest.size()) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    out.digest[at / 2] = static_cast<uint8_t>(out.digest[at / 2] << 4 | digit);
  }
  return out;
}

}  // namespace

CLI::App* LoginCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("login", "Sign in to a cluster as a user; later commands use the sign-in");
  app->footer(
      "Examples:\n  volador login --user=mei --address=10.0.0.1:6380\n"
      "  volador login --user=ci --password-file=password --fingerprint=sha256:…\n"
      "  volador login --provider");
  auto* user = app->add_option("--user", user_, "Name of the user; that of the machine's user by default");
  user->type_name("NAME");
  auto* password =
      app->add_option("--password-file", password_file_,
                      "File whose first line is the password, - for the standard input; without it the terminal asks");
  password->type_name("FILE");
  app->add_flag("--provider", provider_,
                "Sign in by the cluster's OpenID Connect provider, in a browser on any machine")
      ->excludes(user)
      ->excludes(password);
  app->add_option("--valid-for", valid_for_, "How long the sign-in is valid, at most 90d; 7d by default")
      ->type_name("DURATION");
  app->add_option("--fingerprint", fingerprint_,
                  "Fingerprint of the cluster, if this machine does not know it and cannot ask")
      ->type_name("FINGERPRINT");
  declare_connection(*app);
  return app;
}

// The fingerprint that the head must have, so that the password goes to no other cluster.
tl::expected<std::string, Failure> LoginCommand::trusted_fingerprint(const Context& context, const SignInPlace& place,
                                                                     std::chrono::milliseconds timeout) const {
  if (!fingerprint_.empty()) return fingerprint_;
  if (!place.fingerprint.empty()) return place.fingerprint;
  auto found = security::probe_authority(place.address, timeout, SystemClock());
  if (!found) return fail(found.error());
  const std::string shown = to_string(found->authority);
  if (::isatty(STDIN_FILENO) != 1) {
    return usage_error(
        fmt::format("this machine does not know the cluster at {}; compare its fingerprint with the one "
                    "that an operator gave you, and pass it: --fingerprint={}",
                    place.address, shown));
  }
  const std::string question =
      provider_
          ? context.terminal.fill("The cluster at {} has the fingerprint\n{}\nSign in there?", place.address, shown)
          : context.terminal.fill("The cluster at {} has the fingerprint\n{}\nSend it your password?", place.address,
                                  shown);
  if (!context.terminal.confirms(question))
    return fail(ExitCode::kFailed, {ErrorCode::kCancelled, context.terminal.tr("nothing was sent")});
  return shown;
}

tl::expected<v1::LoginReply, Failure> LoginCommand::with_password(const Context& context, control::ClusterApi& api,
                                                                  std::chrono::seconds valid) const {
  const std::string user = user_.empty() ? user_of_machine() : user_;
  auto password = read_password(context.terminal, context.terminal.fill("Password of {}", user), password_file_);
  if (!password) return tl::unexpected(password.error());
  v1::LoginRequest request;
  request.set_user(user);
  request.set_password(*password);
  request.set_valid_s(valid.count());
  auto reply = api.call<v1::LoginReply>("Users/Login", request);
  if (!reply) return fail(reply.error());
  return std::move(*reply);
}

// Shows where to sign in, and waits until the user has done so or the time for it is over.
tl::expected<v1::LoginReply, Failure> LoginCommand::by_provider(const Context& context, control::ClusterApi& api,
                                                                std::chrono::seconds valid) const {
  v1::StartProviderLoginRequest request;
  request.set_valid_s(valid.count());
  auto begun = api.call<v1::StartProviderLoginReply>("Users/StartProviderLogin", request);
  if (!begun) return fail(begun.error());
  context.terminal.note(context.terminal.fill("Open {}\nin a browser, sign in at {} and compare the code {}",
                                              printable(begun->url()), printable(begun->provider()),
                                              printable(begun->user_code())));
  v1::PollProviderLoginRequest poll;
  poll.set_handle(begun->handle());
  for (auto pause = std::chrono::milliseconds(begun->interval_ms());;) {
    std::this_thread::sleep_for(pause);
    auto reply = api.call<v1::PollProviderLoginReply>("Users/PollProviderLogin", poll);
    if (!reply) return fail(reply.error());
    if (!reply->pending()) return std::move(*reply->mutable_login());
    pause = std::chrono::milliseconds(reply->interval_ms());
  }
}

Outcome LoginCommand::run(const Context& context) {
  auto valid_for = parse_duration(valid_for_);
  if (!valid_for || *valid_for < std::chrono::seconds(1))
    return usage_error(fmt::format("--valid-for: expected a duration from 1s to 90d, got \"{}\"", valid_for_));
  auto patience = timeout();
  if (!patience) return tl::unexpected(patience.error());
  auto config = settings(context);
  if (!config) return tl::unexpected(config.error());
  auto place = find_sign_in_place(*config, context.paths);
  if (!place) return tl::unexpected(place.error());
  auto fingerprint = trusted_fingerprint(context, *place, *patience);
  if (!fingerprint) return tl::unexpected(fingerprint.error());
  const auto authority = parse_fingerprint(*fingerprint);
  if (!authority) {
    return usage_error(
        fmt::format("--fingerprint: expected sha256: and 64 hexadecimal digits, got \"{}\"", *fingerprint));
  }
  auto api = control::ClusterApi::connect_open(place->address, *authority, *patience, SystemClock());
  if (!api) return fail(api.error());
  const auto valid = std::chrono::ceil<std::chrono::seconds>(*valid_for);
  auto reply = provider_ ? by_provider(context, **api, valid) : with_password(context, **api, valid);
  if (!reply) return tl::unexpected(reply.error());
  const std::string user = reply->user().name();
  auto saved = save_login(context.paths, {.address = place->address,
                                          .fingerprint = *fingerprint,
                                          .user = user,
                                          .token = reply->token(),
                                          .expires_ms = reply->expires_ms()});
  if (!saved) return fail_here(saved.error());
  const nlohmann::ordered_json json{{"api_version", "v1"},
                                    {"user", user},
                                    {"role", reply->user().role()},
                                    {"address", place->address},
                                    {"expires_ms", reply->expires_ms()}};
  context.terminal.print(wants_json() ? text_of(json)
                                      : context.terminal.fill("signed in at {} as {}, with role {}", place->address,
                                                              user, reply->user().role()) +
                                            "\n");
  if (config->is_set("token") || config->is_set("token_file"))
    context.terminal.note(
        context.terminal.tr("VOLADOR_TOKEN, or another setting of the token, is used before the sign-in"));
  return {};
}

CLI::App* LogoutCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("logout", "End the sign-in at a cluster");
  declare_connection(*app);
  return app;
}

Outcome LogoutCommand::run(const Context& context) {
  auto patience = timeout();
  if (!patience) return tl::unexpected(patience.error());
  auto config = settings(context);
  if (!config) return tl::unexpected(config.error());
  auto place = find_sign_in_place(*config, context.paths);
  if (!place) return tl::unexpected(place.error());
  auto logins = load_logins(context.paths);
  if (!logins) return fail_here(logins.error());
  const auto login = login_at(*logins, place->address);
  if (!login) {
    return fail(Error{ErrorCode::kNotFound,
                      fmt::format("this machine is not signed in at {}; `volador login` signs in", place->address)});
  }
  // An expired or revoked sign-in is only forgotten, and so is one at a head that does not run.
  auto api =
      cli::connect({.address = login->address, .token = login->token, .local_cluster = {}}, context.paths, *patience);
  if (auto removed = remove_login(context.paths, login->address); !removed) return fail_here(removed.error());
  const auto ended = api ? (*api)->call<v1::LogoutReply>("Users/Logout", v1::LogoutRequest())
                         : Result<v1::LogoutReply>(make_error(api.error().error));
  if (!ended && ended.error().code != ErrorCode::kUnauthenticated)
    context.terminal.note(context.terminal.fill("the head does not know of it: {}", ended.error().message));
  context.terminal.print(wants_json()
                             ? std::string("{\"api_version\": \"v1\"}\n")
                             : context.terminal.fill("{} is signed out at {}", login->user, login->address) + "\n");
  return {};
}

CLI::App* WhoAmICommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("whoami", "Show the user, the token and the role of commands on this machine");
  declare_connection(*app);
  return app;
}

Outcome WhoAmICommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  auto reply = (*api)->call<v1::WhoAmIReply>("Users/WhoAmI", v1::WhoAmIRequest());
  if (!reply) return fail(reply.error());
  nlohmann::ordered_json json{{"api_version", "v1"}};
  json.update(dashboard::json_of(*reply));
  context.terminal.print(wants_json() ? text_of(json) : who_text(*reply, context.terminal));
  return {};
}

}  // namespace volador::cli
