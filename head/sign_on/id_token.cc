#include "head/sign_on/id_token.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "head/sign_on/provider.h"
#include "runtime/text.h"

namespace volador::head {
namespace {

using nlohmann::json;

constexpr size_t kSubjectMax = 255;
constexpr size_t kFullNameMax = 256;
constexpr size_t kMailMax = 254;
constexpr size_t kGroupsMax = 10'000;

tl::unexpected<Error> refused_claim(std::string_view claim, std::string why) {
  return make_error(ErrorCode::kUnauthenticated,
                    fmt::format("the provider's ID token is not accepted: {}: {}", claim, std::move(why)));
}

tl::unexpected<Error> not_allowed(std::string why) { return make_error(ErrorCode::kPermissionDenied, std::move(why)); }

std::string text_of(const json& claims, const std::string& name) {
  const auto found = claims.find(name);
  return found != claims.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Seconds since 1970; nullopt: not a number in range.
std::optional<double> time_of(const json& claims, const char* name) {
  const auto found = claims.find(name);
  if (found == claims.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return value >= 0 && value < 1e11 ? std::optional(value) : std::nullopt;
}

bool is_plain(std::string_view text, size_t bytes_max) {
  return text.size() <= bytes_max && std::all_of(text.begin(), text.end(), [](char c) {
           return static_cast<unsigned char>(c) >= ' ' && c != 0x7F;
         });
}

// "mei" of "Mei@example.org".
std::string user_name_of(const std::string& claim) { return lower_case(claim.substr(0, claim.find('@'))); }

bool is_mail(std::string_view text) {
  const size_t at = text.find('@');
  return is_plain(text, kMailMax) && at != 0 && at != std::string_view::npos && at + 1 < text.size() &&
         text.find('@', at + 1) == std::string_view::npos && text.find(' ') == std::string_view::npos;
}

std::set<std::string> texts_of(const json& claims, const std::string& name) {
  std::set<std::string> out;
  const auto found = claims.find(name);
  if (found == claims.end()) return out;
  if (found->is_string()) out.insert(found->get<std::string>());
  if (!found->is_array()) return out;
  for (const auto& entry : *found) {
    if (entry.is_string() && out.size() < kGroupsMax) out.insert(entry.get<std::string>());
  }
  return out;
}

// A group of the cluster for one of the provider: "/Vision" and "Vision" are "vision".
std::string group_name_of(std::string_view group) {
  if (group.starts_with('/')) group.remove_prefix(1);
  return lower_case(group);
}

Result<void> check_audience(const json& claims, const std::string& client) {
  const auto found = claims.find("aud");
  bool is_ours = found != claims.end() && found->is_string() && found->get<std::string>() == client;
  size_t audiences = 1;
  if (found != claims.end() && found->is_array()) {
    audiences = found->size();
    is_ours = std::any_of(found->begin(), found->end(),
                          [&](const json& one) { return one.is_string() && one.get<std::string>() == client; });
  }
  if (!is_ours) return refused_claim("aud", fmt::format("it is not for the client \"{}\"; see oidc.client_id", client));
  const auto party = claims.find("azp");
  if (party == claims.end() && audiences < 2) return {};
  if (text_of(claims, "azp") == client) return {};
  return refused_claim("azp", fmt::format("it was made for another client than \"{}\"", client));
}

Result<void> check_times(const json& claims, WallTime now) {
  const double now_s = std::chrono::duration<double>(now.time_since_epoch()).count();
  const double skew = std::chrono::duration<double>(kClockSkew).count();
  const auto expires = time_of(claims, "exp"), issued = time_of(claims, "iat"), begins = time_of(claims, "nbf");
  if (!expires) return refused_claim("exp", "it is missing or no time");
  if (!issued) return refused_claim("iat", "it is missing or no time");
  if (now_s >= *expires + skew)
    return refused_claim("exp", fmt::format("it expired {:.0f} s ago; sign in again, and check the clocks of the head "
                                            "and the provider",
                                            now_s - *expires));
  for (const auto& [name, from] : {std::pair("iat", issued), std::pair("nbf", begins)}) {
    if (from && *from > now_s + skew)
      return refused_claim(name, fmt::format("it is {:.0f} s in the future; check the clocks of the head and the "
                                             "provider",
                                             *from - now_s));
  }
  return {};
}

Result<void> check_mail_domain(const json& claims, const std::string& mail, const SignOnOptions& options) {
  if (options.allowed_domains.empty()) return {};
  const std::string domain = mail.empty() ? "" : lower_case(mail.substr(mail.find('@') + 1));
  if (!options.allowed_domains.contains(domain)) {
    return not_allowed(fmt::format("the mail address {}is not of a domain that may sign in: {} (oidc.allowed_domains)",
                                   mail.empty() ? "" : mail + " ", fmt::join(options.allowed_domains, ", ")));
  }
  const auto verified = claims.find("email_verified");
  const bool is_verified = verified != claims.end() && (*verified == true || *verified == "true");
  if (is_verified) return {};
  return not_allowed(
      fmt::format("the provider does not say that the mail address {} is verified, as "
                  "oidc.allowed_domains needs it",
                  mail));
}

}  // namespace

Result<json> check_id_token(std::string_view payload, const IdTokenRules& rules, WallTime now) {
  json claims = json::parse(payload, nullptr, /*allow_exceptions=*/false);
  if (!claims.is_object()) return refused_claim("payload", "it is no JSON object");
  if (text_of(claims, "iss") != rules.issuer) {
    return refused_claim("iss", fmt::format("it is of the issuer \"{}\", expected \"{}\"",
                                            shown_text(text_of(claims, "iss")), rules.issuer));
  }
  VOLADOR_TRY(check_audience(claims, rules.client_id));
  VOLADOR_TRY(check_times(claims, now));
  if (!rules.nonce.empty() && text_of(claims, "nonce") != rules.nonce)
    return refused_claim("nonce", "it is not of this sign-in");
  const std::string subject = text_of(claims, "sub");
  if (subject.empty() || !is_plain(subject, kSubjectMax))
    return refused_claim("sub", fmt::format("expected 1 to {} bytes without control characters", kSubjectMax));
  return claims;
}

bool lacks_claims(const json& claims, const SignOnOptions& options) {
  for (const std::string* name :
       {&options.name_claim, &options.full_name_claim, &options.mail_claim, &options.groups_claim}) {
    if (!name->empty() && !claims.contains(*name)) return true;
  }
  return false;
}

Result<void> add_user_info(json& claims, std::string_view info) {
  const json more = json::parse(info, nullptr, /*allow_exceptions=*/false);
  if (!more.is_object() || text_of(more, "sub") != text_of(claims, "sub"))
    return make_error(ErrorCode::kUnauthenticated, "the provider's user info is not of the user of the ID token");
  for (const auto& [name, value] : more.items()) {
    if (!claims.contains(name)) claims[name] = value;
  }
  return {};
}

Result<SignOnIdentity> identity_of(const json& claims, const SignOnOptions& options) {
  SignOnIdentity who{.subject = text_of(claims, "sub"), .name = user_name_of(text_of(claims, options.name_claim))};
  if (const std::string full_name = text_of(claims, options.full_name_claim); is_plain(full_name, kFullNameMax))
    who.full_name = full_name;
  if (const std::string mail = text_of(claims, options.mail_claim); is_mail(mail)) who.mail = mail;
  VOLADOR_TRY(check_mail_domain(claims, who.mail, options));
  if (options.groups_claim.empty()) return who;
  const std::set<std::string> groups = texts_of(claims, options.groups_claim);
  who.groups.emplace();
  for (const std::string& group : groups) who.groups->insert(group_name_of(group));
  const bool allowed = options.allowed_groups.empty() ||
                       std::any_of(groups.begin(), groups.end(),
                                   [&](const std::string& group) { return options.allowed_groups.contains(group); });
  if (allowed) return who;
  return not_allowed(fmt::format("{} is in none of the groups that may sign in: {} (oidc.allowed_groups)",
                                 who.name.empty() ? "this person" : who.name, fmt::join(options.allowed_groups, ", ")));
}

}  // namespace volador::head
