// Sign-in by a provider: the way of a browser to it and back, and the approval of command lines.
#include <fmt/format.h>

#include "dashboard/dashboard_impl.h"
#include "dashboard/json_text.h"
#include "dashboard/provider_pages.h"
#include "runtime/log.h"
#include "runtime/outgoing/form.h"
#include "runtime/security/sign_on_service.h"
#include "runtime/text.h"

namespace volador::dashboard {
namespace {

using security::SignOnService;

constexpr std::chrono::minutes kBindingLife{10};

std::string_view language_of(const HttpRequest& request) { return request.header("accept-language"); }

std::string query_of(const Target& target, const char* name) {
  const auto found = target.query.find(name);
  return found == target.query.end() ? std::string() : found->second;
}

// With the usual policy of no referrer, browsers would send the form with the origin "null", which is refused.
HttpResponse html_response(std::string body, int status = 200) {
  return {.status = status,
          .content_type = "text/html; charset=utf-8",
          .body = std::move(body),
          .headers = {{"Cache-Control", "no-store"}, {"Referrer-Policy", "same-origin"}}};
}

HttpResponse failed_response(const HttpRequest& request, const Error& error) {
  return html_response(failed_page(error.message, language_of(request)), problem(error).status);
}

HttpResponse redirect_to(std::string url) {
  return {.status = 303, .headers = {{"Cache-Control", "no-store"}, {"Location", std::move(url)}}};
}

}  // namespace

// The provider sends the browser back from another site, which SameSite=Strict would keep the cookie from.
std::string Dashboard::Impl::provider_cookie(std::string_view binding) const {
  const bool is_secure = is_tls() || options.public_url.starts_with("https://");
  return fmt::format("volador_provider_{}={}; Path=/login/provider; HttpOnly; SameSite=Lax; Max-Age={}{}",
                     server->port(), binding, std::chrono::seconds(kBindingLife).count(), is_secure ? "; Secure" : "");
}

void Dashboard::Impl::provider_route(const Target& target, const HttpRequest& request, const Respond& respond) {
  const bool is_approval = target.path == "/login/provider/approve";
  if (request.method != (is_approval ? "POST" : "GET")) {
    HttpResponse response =
        problem(405, {ErrorCode::kInvalidArgument, fmt::format("{} is not allowed here", request.method)});
    response.headers.emplace_back("Allow", is_approval ? "POST" : "GET");
    return respond(std::move(response));
  }
  SignOnService* provider = cluster.sign_on();
  if (target.path == "/api/v1/session/provider") {
    std::string body;
    JsonObject object(body);
    if (provider != nullptr) object.text("label", provider->label());
    object.end();
    return respond(json_response(std::move(body)));
  }
  if (provider == nullptr) {
    return respond(failed_response(
        request, {ErrorCode::kNotFound, "this cluster has no provider of sign-ins; sign in with a password"}));
  }
  if (is_approval) return approve_command_line(request, respond);
  if (target.path == "/login/provider") return begin_provider_sign_in(target, request, respond);
  if (target.path == "/login/provider/callback") return finish_provider_sign_in(target, request, respond);
  respond(problem(404, {ErrorCode::kNotFound, "there is no such page"}));
}

void Dashboard::Impl::begin_provider_sign_in(const Target& target, const HttpRequest& request, const Respond& respond) {
  // The provider sends the browser back to the one address that it knows; the cookie must be of the same.
  const std::string here = page_url();
  if (lower_case(request.header("host")) != lower_case(here.substr(here.find("://") + 3)) &&
      query_of(target, "again").empty()) {
    std::vector<std::pair<std::string, std::string>> fields{{"again", "1"}};
    for (const char* name : {"next", "code"}) {
      if (const std::string value = query_of(target, name); !value.empty()) fields.emplace_back(name, value);
    }
    return respond(redirect_to(here + "/login/provider?" + outgoing::form_text(fields)));
  }
  const std::string next = query_of(target, "next");
  cluster.sign_on()->begin(
      {.next = next.empty() ? "/" : next, .user_code = query_of(target, "code"), .peer = request.peer},
      [this, request, respond](const Result<SignOnService::Begun>& begun) {
        server->post([this, request, respond, begun] {
          if (!begun) return respond(failed_response(request, begun.error()));
          HttpResponse response = redirect_to(begun->url);
          response.headers.emplace_back("Set-Cookie", provider_cookie(begun->binding));
          respond(std::move(response));
        });
      });
}

void Dashboard::Impl::finish_provider_sign_in(const Target& target, const HttpRequest& request,
                                              const Respond& respond) {
  const std::string cookie_name = fmt::format("volador_provider_{}", server->port());
  SignOnService::Callback callback{.state = query_of(target, "state"),
                                   .code = query_of(target, "code"),
                                   .error = query_of(target, "error"),
                                   .issuer = query_of(target, "iss"),
                                   .binding = std::string(cookie_of(request.header("cookie"), cookie_name)),
                                   .peer = request.peer};
  cluster.sign_on()->finish(
      std::move(callback), [this, request, respond](const Result<SignOnService::Finished>& finished) {
        server->post([this, request, respond, finished] {
          if (!finished) return respond(failed_response(request, finished.error()));
          if (finished->token.empty()) {
            return respond(html_response(approval_page({.user = finished->user,
                                                        .user_code = finished->user_code,
                                                        .device = finished->device,
                                                        .approval = finished->approval},
                                                       language_of(request))));
          }
          const auto visitor = cluster.bearer(finished->token);
          if (!visitor) return respond(failed_response(request, visitor.error()));
          log::info("dashboard", "signed in by the provider", {{"user", visitor->user}, {"peer", request.peer}});
          HttpResponse response = redirect_to(finished->next);
          // A response has one cookie; that of the way to the provider ends by itself.
          const HttpResponse session = open_session(request, *visitor);
          for (const auto& [name, value] : session.headers) {
            if (name == "Set-Cookie") response.headers.emplace_back(name, value);
          }
          respond(std::move(response));
        });
      });
}

// The secret in the form is known to the page that asks only, so that other pages cannot approve.
void Dashboard::Impl::approve_command_line(const HttpRequest& request, const Respond& respond) {
  auto form = outgoing::parse_form(request.body);
  const std::string approval = form ? (*form)["approval"] : "";
  cluster.sign_on()->approve(approval, [this, request, respond](const Result<std::string>& user) {
    server->post([this, request, respond, user] {
      if (!user) return respond(failed_response(request, user.error()));
      respond(html_response(approved_page(*user, language_of(request))));
    });
  });
}

}  // namespace volador::dashboard
