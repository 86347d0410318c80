#include "head/sign_on/provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base64.h"
#include "runtime/outgoing/form.h"
#include "runtime/outgoing/retry.h"
#include "runtime/security/digest.h"

namespace volador::head {
namespace {

using nlohmann::json;

constexpr std::string_view kDeviceGrant = "urn:ietf:params:oauth:grant-type:device_code";
constexpr size_t kShownMax = 200;
constexpr size_t kUserCodeMax = 32;
constexpr int64_t kIntervalMost = 60;
constexpr int64_t kDeviceLifeMost = 900;

std::string text_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int64_t whole_in(const json& object, const char* name, int64_t otherwise, int64_t most) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return otherwise;
  return std::clamp<int64_t>(found->get<int64_t>(), 1, most);
}

tl::unexpected<Error> bad_provider(std::string why) { return make_error(ErrorCode::kInvalidArgument, std::move(why)); }

outgoing::Fetch form_request(const std::string& url, const ProviderMetadata& provider, const SignOnOptions& options,
                             std::vector<std::pair<std::string, std::string>> fields) {
  outgoing::Fetch fetch{.url = url, .headers = {"Accept: application/json"}};
  const std::string& secret = options.client_secret.reveal();
  if (!secret.empty() && provider.takes_basic) {
    fetch.headers.push_back("Authorization: Basic " + base64(outgoing::percent_encoded(options.client_id) + ":" +
                                                             outgoing::percent_encoded(secret)));
  } else {
    fields.emplace_back("client_id", options.client_id);
    if (!secret.empty()) fields.emplace_back("client_secret", secret);
  }
  fetch.form = outgoing::form_text(fields);
  return fetch;
}

}  // namespace

std::string shown_text(std::string_view text) {
  std::string out(text.substr(0, kShownMax));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c == 0x7F; }, '?');
  return out;
}

Result<void> check_provider_url(std::string_view what, std::string_view url) {
  const auto parsed = outgoing::parse_webhook(url);
  const bool plain = url.find_first_of("?#") == std::string_view::npos;
  const bool here = parsed && (parsed->host == "localhost" || parsed->host == "127.0.0.1" || parsed->host == "::1");
  if (parsed && plain && (url.starts_with("https://") || here)) return {};
  return bad_provider(
      fmt::format("{}: expected an address that begins with https:// (http:// on this machine only), "
                  "without a query, got \"{}\"",
                  what, shown_text(url)));
}

std::string discovery_url(const std::string& issuer) {
  return (issuer.ends_with('/') ? issuer.substr(0, issuer.size() - 1) : issuer) + "/.well-known/openid-configuration";
}

Result<ProviderMetadata> parse_metadata(std::string_view text, const std::string& issuer) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object())
    return bad_provider(
        fmt::format("{} is no JSON object; is oidc.issuer the provider's issuer?", discovery_url(issuer)));
  ProviderMetadata out{.issuer = text_in(document, "issuer"),
                       .authorization_url = text_in(document, "authorization_endpoint"),
                       .token_url = text_in(document, "token_endpoint"),
                       .keys_url = text_in(document, "jwks_uri"),
                       .device_url = text_in(document, "device_authorization_endpoint"),
                       .user_info_url = text_in(document, "userinfo_endpoint")};
  if (out.issuer != issuer)
    return bad_provider(fmt::format("{} is of the issuer \"{}\"; oidc.issuer is \"{}\", and both must be the same text",
                                    discovery_url(issuer), shown_text(out.issuer), issuer));
  // An authorization address may have a query; it is only for browsers.
  VOLADOR_TRY(check_provider_url("authorization_endpoint",
                                 std::string_view(out.authorization_url).substr(0, out.authorization_url.find('?'))));
  VOLADOR_TRY(check_provider_url("token_endpoint", out.token_url));
  VOLADOR_TRY(check_provider_url("jwks_uri", std::string_view(out.keys_url).substr(0, out.keys_url.find('?'))));
  if (!out.device_url.empty()) VOLADOR_TRY(check_provider_url("device_authorization_endpoint", out.device_url));
  if (!out.user_info_url.empty()) VOLADOR_TRY(check_provider_url("userinfo_endpoint", out.user_info_url));
  const auto methods = document.find("token_endpoint_auth_methods_supported");
  if (methods != document.end() && methods->is_array())
    out.takes_basic = std::find(methods->begin(), methods->end(), "client_secret_basic") != methods->end();
  const auto names = document.find("authorization_response_iss_parameter_supported");
  out.names_itself = names != document.end() && names->is_boolean() && names->get<bool>();
  return out;
}

std::string code_challenge(const std::string& verifier) { return base64url(security::raw(security::sha256(verifier))); }

std::string authorization_url(const ProviderMetadata& provider, const SignOnOptions& options,
                              const AuthorizationRequest& request) {
  const bool has_query = provider.authorization_url.find('?') != std::string::npos;
  return provider.authorization_url + (has_query ? "&" : "?") +
         outgoing::form_text({{"response_type", "code"},
                              {"client_id", options.client_id},
                              {"redirect_uri", request.callback},
                              {"scope", options.scopes},
                              {"state", request.state},
                              {"nonce", request.nonce},
                              {"code_challenge", code_challenge(request.verifier)},
                              {"code_challenge_method", "S256"}});
}

outgoing::Fetch code_request(const ProviderMetadata& provider, const SignOnOptions& options, const std::string& code,
                             const std::string& verifier, const std::string& callback) {
  return form_request(
      provider.token_url, provider, options,
      {{"grant_type", "authorization_code"}, {"code", code}, {"redirect_uri", callback}, {"code_verifier", verifier}});
}

outgoing::Fetch device_request(const ProviderMetadata& provider, const SignOnOptions& options) {
  auto fetch = form_request(provider.device_url, provider, options, {{"scope", options.scopes}});
  // RFC 8628 has the client's id in the form also where the head of the request has it.
  if (fetch.form->find("client_id=") == std::string::npos)
    *fetch.form += "&" + outgoing::form_text({{"client_id", options.client_id}});
  return fetch;
}

outgoing::Fetch device_code_request(const ProviderMetadata& provider, const SignOnOptions& options,
                                    const std::string& device_code) {
  return form_request(provider.token_url, provider, options,
                      {{"grant_type", std::string(kDeviceGrant)}, {"device_code", device_code}});
}

Result<std::optional<Tokens>> parse_tokens(const outgoing::Answer& answer, bool& slower) {
  slower = false;
  const json document = json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const std::string error = document.is_object() ? text_in(document, "error") : "";
  if (!error.empty()) {
    slower = error == "slow_down";
    if (slower || error == "authorization_pending") return std::nullopt;
    const std::string about = text_in(document, "error_description");
    const bool by_user = error == "access_denied" || error == "expired_token" || error == "invalid_grant";
    return make_error(
        by_user ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable,
        fmt::format(
            "the provider gives no tokens: {}{}{}; sign in again{}", shown_text(error), about.empty() ? "" : ": ",
            shown_text(about),
            by_user ? "" : ", and if it happens again, an operator checks oidc.client_id and oidc.client_secret_file"));
  }
  if (!answer.delivered)
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the provider gives no tokens: {}; sign in again", answer.why));
  Tokens tokens;
  if (document.is_object()) {
    tokens.id_token = text_in(document, "id_token");
    tokens.access_token = text_in(document, "access_token");
  }
  if (!tokens.id_token.empty()) return tokens;
  return make_error(ErrorCode::kUnavailable, "the provider gives no ID token; an operator adds openid to oidc.scopes");
}

Result<DeviceGrant> parse_device_grant(const outgoing::Answer& answer) {
  const json document = json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (!answer.delivered || !document.is_object()) {
    const std::string error = document.is_object() ? text_in(document, "error") : "";
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the provider takes no sign-in of a device: {}; an operator allows this client the "
                                  "device grant, or sets oidc.device: false",
                                  error.empty() ? answer.why : shown_text(error)));
  }
  DeviceGrant out{.device_code = text_in(document, "device_code"),
                  .user_code = text_in(document, "user_code"),
                  .url = text_in(document, "verification_uri_complete"),
                  .valid = std::chrono::seconds(whole_in(document, "expires_in", 600, kDeviceLifeMost)),
                  .interval = std::chrono::seconds(whole_in(document, "interval", 5, kIntervalMost))};
  if (out.url.empty()) out.url = text_in(document, "verification_uri");
  const bool plain = out.user_code.size() <= kUserCodeMax && std::all_of(out.user_code.begin(), out.user_code.end(),
                                                                         [](char c) { return c > ' ' && c < 0x7F; });
  const auto url = outgoing::parse_webhook(out.url);
  if (out.device_code.empty() || out.user_code.empty() || !plain || !url) {
    return make_error(ErrorCode::kUnavailable,
                      "the provider's answer to a sign-in of a device has no device_code, user_code or "
                      "verification_uri; an operator sets oidc.device: false");
  }
  return out;
}

}  // namespace volador::head
