#include "head/shell/sign_on_user.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "runtime/protocol/control.pb.h"

namespace volador::head {
namespace {

v1::User with_news(v1::User user, const SignOnIdentity& who) {
  user.set_subject(who.subject);
  if (!who.full_name.empty()) user.set_full_name(who.full_name);
  if (!who.mail.empty()) user.set_mail(who.mail);
  return user;
}

// For a shell: subjects such as "auth0|7" have characters with a meaning there.
std::string quoted(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-_.@:").find(c) != std::string::npos;
  });
  if (plain) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

tl::unexpected<Error> no_sign_on(std::string why) { return make_error(ErrorCode::kPermissionDenied, std::move(why)); }

Result<v1::User> enabled(const protocol::UserRecord& user, const SignOnIdentity& who) {
  if (!user.disabled()) return with_news(to_api(user), who);
  return no_sign_on(
      fmt::format("user {0} is disabled; an operator changes that with `volador user set {0} --enable`", user.name()));
}

}  // namespace

Result<v1::User> user_for(const UserTable& users, const SignOnIdentity& who, const SignOnOptions& options) {
  if (const protocol::UserRecord* known = users.find_subject(who.subject)) return enabled(*known, who);
  if (const auto named = security::check_user_name("name", who.name); !named) {
    return no_sign_on(
        fmt::format("the claim {} of {} gives no name for a user ({}); an operator adds a user for it with `volador "
                    "user add NAME --no-password --subject={}`, or sets oidc.name_claim",
                    options.name_claim, options.label, named.error().message, quoted(who.subject)));
  }
  const protocol::UserRecord* same_name = users.find(who.name);
  if (same_name != nullptr && options.link_users && same_name->subject().empty()) return enabled(*same_name, who);
  if (same_name != nullptr) {
    return no_sign_on(
        fmt::format("user {0} exists, and is not linked to this person at {1}; an operator links them with `volador "
                    "user set {0} --subject={2}`",
                    who.name, options.label, quoted(who.subject)));
  }
  if (!options.create_users) {
    return no_sign_on(
        fmt::format("there is no user for {0} of {1}; an operator adds one with `volador user add {0} --no-password "
                    "--subject={2}`",
                    who.name, options.label, quoted(who.subject)));
  }
  v1::User created;
  created.set_name(who.name);
  created.set_role(std::string(to_string(options.role)));
  return with_news(std::move(created), who);
}

}  // namespace volador::head
