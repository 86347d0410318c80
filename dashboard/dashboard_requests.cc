// Request handling of the dashboard server: access, page files and sessions; other requests go to the API.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dashboard/dashboard_impl.h"
#include "dashboard/json_text.h"
#include "dashboard/live_client.h"
#include "dashboard/request_body.h"
#include "dashboard/web_assets.h"
#include "runtime/log.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/security/digest.h"
#include "runtime/security/principal.h"
#include "runtime/version.h"

namespace volador::dashboard {
namespace {

using namespace std::chrono_literals;

// Shown if no page was built into the binary.
constexpr std::string_view kNoPage = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Volador</title></head>
<body><h1>Volador</h1>
<p>This build of Volador holds no dashboard page. The API is served: see /api/v1/openapi.json with a token.</p>
</body></html>
)";

std::string_view type_of(std::string_view path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kTypes{
      {{".html", "text/html; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".mjs", "text/javascript; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".json", "application/json"},
       {".svg", "image/svg+xml"},
       {".png", "image/png"},
       {".ico", "image/x-icon"},
       {".woff2", "font/woff2"},
       {".webmanifest", "application/manifest+json"},
       {".txt", "text/plain; charset=utf-8"},
       {".map", "application/json"}}};
  for (const auto& [ending, type] : kTypes) {
    if (path.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

// Computed once per file, since anyone may request the files any number of times.
std::string digest_of(const WebAsset& asset) {
  static const auto digests = [] {
    std::map<std::string_view, std::string> made;
    for (const WebAsset& one : web_assets()) made[one.path] = security::hex(security::sha256(one.bytes)).substr(0, 16);
    return made;
  }();
  return digests.at(asset.path);
}

HttpResponse not_allowed(const std::string& method, const std::string& allowed) {
  HttpResponse response =
      problem(405, {ErrorCode::kInvalidArgument, fmt::format("{} is not allowed here; {} is", method, allowed)});
  response.headers.emplace_back("Allow", allowed);
  return response;
}

HttpResponse lacks_role(Access needed, Access own) {
  return problem(403, {ErrorCode::kPermissionDenied,
                       fmt::format("this is for role {}; you have role {}", to_string(needed), to_string(own))});
}

constexpr std::string_view kJobsPath = "/api/v1/jobs/";
constexpr std::string_view kPageEnd = "/page";

// "/api/v1/jobs/{job}/page".
bool is_page_path(std::string_view path) {
  return path.starts_with(kJobsPath) && path.ends_with(kPageEnd) && path.size() > kJobsPath.size() + kPageEnd.size() &&
         path.find('/', kJobsPath.size()) == path.size() - kPageEnd.size();
}

}  // namespace

const std::vector<std::pair<std::string, std::string>>& guarding_headers() {
  static const std::vector<std::pair<std::string, std::string>> kHeaders{
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src "
       "'self'; manifest-src 'self'; "
       "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"}};
  return kHeaders;
}

std::string Dashboard::Impl::cookie(std::string_view value, std::chrono::seconds life) const {
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}", cookie_name(), value, life.count(),
                     is_tls() ? "; Secure" : "");
}

// Unauthenticated requests from the same address may have used up its quota: a request with a token or session has its
// own.
bool Dashboard::Impl::may_ask(const HttpRequest& request) {
  if (brake.may_ask(request.peer, clock.now())) return true;
  const auto who = identify(request);
  return who && brake.may_ask("token " + who->visitor.token_id, clock.now());
}

tl::expected<Target, HttpResponse> Dashboard::Impl::admit(const HttpRequest& request) {
  if (!may_ask(request)) {
    HttpResponse slow = problem(429,
                                {ErrorCode::kUnavailable, fmt::format("more than {} requests a second from {}",
                                                                      RequestBrake::kPerSecond, request.peer)},
                                "ask less often, or follow /ws");
    slow.headers.emplace_back("Retry-After", "1");
    return tl::unexpected(std::move(slow));
  }
  if (request.count("host") != 1)
    return tl::unexpected(problem(400, {ErrorCode::kInvalidArgument, "a request names its host once"}));
  const std::string_view host = request.header("host");
  if (!guard.is_ours(host)) {
    return tl::unexpected(
        problem(421, {ErrorCode::kInvalidArgument, "this server does not go by the name in the Host header"},
                "open it by its address, or start the head with --public-url"));
  }
  if (const std::string_view origin = request.header("origin");
      request.count("origin") > 0 && !guard.same_origin(origin, host, request.tls)) {
    return tl::unexpected(problem(403, {ErrorCode::kPermissionDenied, "pages of other sites may not ask this server"}));
  }
  auto target = parse_target(request.target);
  if (!target) return tl::unexpected(problem(target.error()));
  return std::move(*target);
}

tl::expected<Dashboard::Impl::Credentials, HttpResponse> Dashboard::Impl::identify(const HttpRequest& request) {
  const auto refused = [](const std::string& why) {
    return tl::unexpected(
        problem(401, {ErrorCode::kUnauthenticated, why},
                "sign in with user and password, open the link that `volador dashboard` prints, or send Authorization: "
                "Bearer with a token"));
  };
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.header("authorization");
  if (!authorization.empty()) {
    if (!authorization.starts_with(kBearer) || request.count("authorization") != 1)
      return refused("Authorization: expected one Bearer token");
    auto visitor = cluster.bearer(authorization.substr(kBearer.size()));
    if (visitor) return proved(request, {.visitor = std::move(*visitor)});
    if (visitor.error().code == ErrorCode::kPermissionDenied) return tl::unexpected(problem(visitor.error()));
    // A valid token is accepted even if other guesses came from the address.
    if (!brake.may_guess(request.peer, clock.now())) {
      return tl::unexpected(problem(429, {ErrorCode::kUnavailable, "too many wrong tokens from there; wait a minute"}));
    }
    brake.guessed_wrong(request.peer, clock.now());
    return refused(visitor.error().message);
  }
  const std::string session(cookie_of(request.header("cookie"), cookie_name()));
  if (session.empty()) return refused("nobody is signed in");
  std::optional<SignIn::Session> found;
  {
    std::lock_guard lock(sign_in_mutex);
    found = sign_ins.find(session, clock.wall());
  }
  const auto most = found ? cluster.access_of(found->visitor.token_id) : std::nullopt;
  if (!most) return refused("the session has ended");
  found->visitor.access = std::min(found->visitor.access, *most);
  return proved(request, {.visitor = found->visitor, .session = session, .expires = found->expires});
}

Dashboard::Impl::Credentials Dashboard::Impl::proved(const HttpRequest& request, Credentials who) {
  if (request.prove) request.prove();
  return who;
}

// Browsers send cookies with requests of any page, so requests with side effects must come from our origin.
std::optional<HttpResponse> Dashboard::Impl::check_change(const HttpRequest& request, const Credentials& who) const {
  if (request.method == "GET" || request.method == "HEAD" || who.session.empty()) return std::nullopt;
  const bool from_our_page = request.header("x-volador-request") == "1" &&
                             guard.same_origin(request.header("origin"), request.header("host"), request.tls);
  if (from_our_page) return std::nullopt;
  return problem(403, {ErrorCode::kPermissionDenied,
                       "a change by cookie needs the header X-Volador-Request: 1 and comes from the page itself"});
}

void Dashboard::Impl::on_request(HttpRequest request, Respond respond) {
  auto target = admit(request);
  if (!target) return respond(std::move(target.error()));
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (target->path == "/api/v1/session") return session_route(request, respond);
  if (is_page_path(target->path)) return respond(page_route(request, *target));
  if (target->path == "/api/v1/session/provider" || target->path.starts_with("/login/provider"))
    return provider_route(*target, request, respond);
  const Api::Match match = Api::match(request.method, target->path);
  if (match.allowed.empty() && !target->path.starts_with("/api/")) {
    if (!reads)
      return respond(
          problem(405, {ErrorCode::kInvalidArgument, fmt::format("{} is not allowed here", request.method)}));
    if (target->path == "/healthz") return respond(json_response("{\"status\":\"ok\"}"));
    if (target->path == "/login") return respond(login(*target, request));
    if (target->path == "/ws")
      return respond(problem(400, {ErrorCode::kInvalidArgument, "/ws takes WebSocket connections"}));
    return respond(static_file(request, target->path));
  }
  auto who = identify(request);
  if (!who) return respond(std::move(who.error()));
  if (match.allowed.empty())
    return respond(problem(404, {ErrorCode::kNotFound, "the API has no such route"},
                           "GET /api/v1/openapi.json describes those that there are"));
  if (match.route == nullptr) return respond(not_allowed(request.method, match.allowed));
  if (who->visitor.access < match.route->access) return respond(lacks_role(match.route->access, who->visitor.access));
  if (auto refusal = check_change(request, *who)) return respond(std::move(*refusal));
  try {
    api.answer(*match.route,
               {.path = match.parameters,
                .query = target->query,
                .body = request.body,
                .by = principal_of(who->visitor, request.peer)},
               respond);
  } catch (const std::exception& error) {
    log::error("dashboard", "a route failed", {{"route", match.route->pattern}, {"what", error.what()}});
    respond(problem(500, {ErrorCode::kInternal, "this is a fault of Volador; the head's log has more"}));
  }
}

HttpResponse Dashboard::Impl::static_file(const HttpRequest& request, const std::string& path) const {
  const std::string wanted = path == "/" ? "/index.html" : path;
  for (const WebAsset& asset : web_assets()) {
    if (asset.path != wanted) continue;
    const bool packed = request.header("accept-encoding").find("gzip") != std::string_view::npos &&
                        asset.gzip.size() < asset.bytes.size();
    const std::string tag = '"' + digest_of(asset) + (packed ? "-gz\"" : "\"");
    HttpResponse response{.headers = {{"Cache-Control", "no-cache"}, {"ETag", tag}, {"Vary", "Accept-Encoding"}}};
    if (request.header("if-none-match") == tag) {
      response.status = 304;
      return response;
    }
    response.content_type = type_of(wanted);
    response.fixed_body = packed ? asset.gzip : asset.bytes;
    if (packed) response.headers.emplace_back("Content-Encoding", "gzip");
    return response;
  }
  if (wanted == "/index.html")
    return {
        .content_type = "text/html; charset=utf-8", .fixed_body = kNoPage, .headers = {{"Cache-Control", "no-cache"}}};
  return problem(404, {ErrorCode::kNotFound, "there is no such page"});
}

HttpResponse Dashboard::Impl::login(const Target& target, const HttpRequest& request) {
  const auto key = target.query.find("key");
  std::optional<std::string> session;
  if (key != target.query.end() && brake.may_guess(request.peer, clock.now())) {
    std::lock_guard lock(sign_in_mutex);
    session = sign_ins.redeem(key->second, clock.wall());
  }
  HttpResponse response{.status = 303, .headers = {{"Cache-Control", "no-store"}}};
  if (!session) {
    brake.guessed_wrong(request.peer, clock.now());
    response.headers.emplace_back("Location", "/?login=expired");
    return response;
  }
  if (request.prove) request.prove();
  save_state();
  log::info("dashboard", "signed in with a login link", {{"peer", request.peer}});
  response.headers.emplace_back("Location", "/");
  response.headers.emplace_back("Set-Cookie", cookie(*session, SignIn::kSessionLife));
  return response;
}

HttpResponse Dashboard::Impl::session_body(const Visitor& visitor, WallTime expires) const {
  std::string body;
  JsonObject object(body);
  object.text("role", to_string(visitor.access));
  if (!visitor.user.empty()) object.text("user", visitor.user);
  object.text("cluster", options.cluster);
  object.text("version", kVersion);
  if (!options.view_of.empty()) object.text("view", options.view_of);
  object.integer("expires_ms", unix_ms(expires));
  object.end();
  return json_response(std::move(body));
}

void Dashboard::Impl::sign_in(const HttpRequest& request, const Respond& respond) {
  if (request.header("x-volador-request") != "1" && request.count("origin") > 0) {
    return respond(
        problem(403, {ErrorCode::kPermissionDenied, "signing in from a page needs the header X-Volador-Request: 1"}));
  }
  if (!brake.may_guess(request.peer, clock.now())) {
    return respond(
        problem(429, {ErrorCode::kUnavailable, "too many wrong tokens or passwords from there; wait a minute"}));
  }
  const auto body = nlohmann::json::parse(request.body, nullptr, false);
  const auto has = [&body](const char* field) {
    return body.is_object() && body.contains(field) && body[field].is_string();
  };
  if (has("user") && has("password")) return sign_in_with_password(request, body["user"], body["password"], respond);
  if (!has("token")) {
    return respond(problem(
        {ErrorCode::kInvalidArgument, "expected {\"user\":\"mei\",\"password\":\"…\"} or {\"token\":\"vt1.…\"}"}));
  }
  const auto visitor = cluster.bearer(body["token"].get<std::string>());
  if (!visitor) {
    brake.guessed_wrong(request.peer, clock.now());
    return respond(problem(visitor.error()));
  }
  log::info("dashboard", "signed in with a token", {{"token", visitor->token_id}, {"peer", request.peer}});
  respond(open_session(request, *visitor));
}

// The session has the token of this sign-in, which ends with it.
void Dashboard::Impl::sign_in_with_password(const HttpRequest& request, const std::string& user,
                                            const std::string& password, const Respond& respond) {
  v1::LoginRequest login;
  login.set_user(user);
  login.set_password(password);
  login.set_valid_s(std::chrono::seconds(SignIn::kSessionLife).count());
  HttpRequest kept = request;
  kept.body.clear();
  cluster.registry().call<v1::LoginReply>(
      "Users/Login", security::unknown_principal(request.peer), login,
      [this, kept = std::move(kept), respond](const Result<v1::LoginReply>& reply) {
        server->post([this, kept, respond, reply] {
          const auto visitor = reply ? cluster.bearer(reply->token()) : make_error(reply.error());
          if (!visitor) {
            if (visitor.error().code == ErrorCode::kUnauthenticated) brake.guessed_wrong(kept.peer, clock.now());
            return respond(problem(visitor.error()));
          }
          log::info("dashboard", "signed in with a password", {{"user", visitor->user}, {"peer", kept.peer}});
          respond(open_session(kept, *visitor));
        });
      });
}

HttpResponse Dashboard::Impl::open_session(const HttpRequest& request, const Visitor& visitor) {
  const WallTime now = clock.wall();
  std::string session;
  {
    std::lock_guard lock(sign_in_mutex);
    session = sign_ins.open(visitor, now);
  }
  if (request.prove) request.prove();
  save_state();
  HttpResponse response = session_body(visitor, now + SignIn::kSessionLife);
  response.headers.emplace_back("Set-Cookie", cookie(session, SignIn::kSessionLife));
  return response;
}

void Dashboard::Impl::session_route(const HttpRequest& request, const Respond& respond) {
  if (request.method == "POST") return sign_in(request, respond);
  const bool known = request.method == "GET" || request.method == "HEAD" || request.method == "DELETE";
  auto who = identify(request);
  if (!who) return respond(std::move(who.error()));
  if (!known) {
    HttpResponse response =
        problem(405, {ErrorCode::kInvalidArgument, fmt::format("{} is not allowed here", request.method)});
    response.headers.emplace_back("Allow", "GET, POST, DELETE");
    return respond(response);
  }
  respond(request.method == "DELETE" ? end_session(request, *who) : session_body(who->visitor, who->expires));
}

std::optional<Access> Dashboard::Impl::access_of(const Visitor& visitor, const std::string& session) {
  const auto most = cluster.access_of(visitor.token_id);
  if (!most) return std::nullopt;
  if (!session.empty()) {
    const std::lock_guard lock(sign_in_mutex);
    if (!sign_ins.find(session, clock.wall())) return std::nullopt;
  }
  return std::min(visitor.access, *most);
}

HttpResponse Dashboard::Impl::page_route(const HttpRequest& request, const Target& target) {
  auto who = identify(request);
  if (!who) return std::move(who.error());
  if (request.method != "POST") return not_allowed(request.method, "POST");
  if (who->visitor.access < Access::kUser) return lacks_role(Access::kUser, who->visitor.access);
  if (auto refusal = check_change(request, *who)) return std::move(*refusal);
  const std::string job = target.path.substr(kJobsPath.size(), target.path.size() - kJobsPath.size() - kPageEnd.size());
  const auto body = parse_body(request.body, page_body_fields());
  if (!body) return problem(body.error());
  const int64_t port = body->at("port").get<int64_t>(), rank = body->value("rank", int64_t{0});
  if (port < 1 || port > 65'535)
    return problem({ErrorCode::kInvalidArgument, "port: expected a port from 1 to 65535, such as 8888"});
  if (rank < 0)
    return problem({ErrorCode::kInvalidArgument, "rank: expected a number from 0, as `volador job show` lists them"});
  if (guard.is_public(request.header("host"))) {
    return problem(409,
                   {ErrorCode::kInfeasible,
                    "a page of a job has a port of its own, which the proxy of this dashboard does not lead to"},
                   fmt::format("run `volador job forward {} {}` on your machine", job, port));
  }
  const auto opened = pages.open({.job = job,
                                  .rank = static_cast<int>(rank),
                                  .port = static_cast<uint16_t>(port),
                                  .visitor = who->visitor,
                                  .session = who->session});
  if (!opened) return problem(opened.error());
  std::string text;
  JsonObject object(text);
  object.integer("port", opened->port);
  object.text("path", "/?volador_key=" + opened->key);
  object.end();
  return json_response(std::move(text));
}

HttpResponse Dashboard::Impl::end_session(const HttpRequest& request, const Credentials& who) {
  if (auto refusal = check_change(request, who)) return std::move(*refusal);
  {
    std::lock_guard lock(sign_in_mutex);
    sign_ins.close(who.session);
  }
  save_state();
  end_clients_of(who.session);
  // Only tokens of sign-ins by password end with the session; the head leaves others as they are.
  if (!who.session.empty() && !who.visitor.user.empty()) {
    cluster.registry().call<v1::LogoutReply>("Users/Logout", principal_of(who.visitor, request.peer),
                                             v1::LogoutRequest(), [](const Result<v1::LogoutReply>&) {});
  }
  HttpResponse response = json_response("{}");
  response.headers.emplace_back("Set-Cookie", cookie("", 0s));
  return response;
}

}  // namespace volador::dashboard
