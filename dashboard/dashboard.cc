#include "dashboard/dashboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "dashboard/api.h"
#include "dashboard/certificate_watch.h"
#include "dashboard/json_text.h"
#include "dashboard/live_client.h"
#include "dashboard/live_model.h"
#include "dashboard/request_guard.h"
#include "dashboard/web_assets.h"
#include "runtime/log.h"
#include "runtime/paths.h"
#include "runtime/security/digest.h"
#include "runtime/security/secret.h"
#include "runtime/version.h"

namespace volador::dashboard {
namespace {

using namespace std::chrono_literals;

constexpr auto kFlushEvery = 20ms;
constexpr auto kObjectsEvery = 2s;  // Asked of the nodes, while somebody looks.
constexpr auto kCheckEvery = 2s;  // That open WebSockets are still allowed.
constexpr auto kCertificateEvery = 5s;  // Looked at for changes.
constexpr size_t kStateBytesMax = 1 << 20;

// Shown while no page has been built into the binary.
constexpr std::string_view kNoPage = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Volador</title></head>
<body><h1>Volador</h1>
<p>This build of Volador holds no dashboard page. The API is served: see /api/v1/openapi.json with a token.</p>
</body></html>
)";

int64_t milliseconds(WallTime time) { return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count(); }

std::string_view type_of(std::string_view path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kTypes{{{".html", "text/html; charset=utf-8"},
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

const std::vector<std::pair<std::string, std::string>> kCommonHeaders{
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
     "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"}};

}  // namespace

struct Dashboard::Impl final : HttpHandler {
  Impl(DashboardOptions o, ClusterPort& p, const Clock& c)
      : options(std::move(o)),
        cluster(p),
        clock(c),
        guard(all_names(), options.public_url),
        model(random_name(), milliseconds(clock.wall()), options.cluster_address),
        api(model, p, [this](std::function<void()> function) { server->post(std::move(function)); }, [this] { return milliseconds(clock.wall()); }) {}

  class Client;

  Result<void> start();
  void load_state();
  void save_state();
  static std::string random_name();
  std::vector<std::string> all_names() const {
    std::vector<std::string> names = options.names;
    names.push_back(options.bind);
    names.push_back(options.host);
    return names;
  }
  bool is_tls() const { return !options.certificate_pem.empty(); }
  std::string cookie_name() const { return fmt::format("volador_session_{}", server->port()); }
  std::string cookie(std::string_view value, std::chrono::seconds life) const;

  // HttpHandler, all on the server's thread.
  void on_request(HttpRequest request, Respond respond) override;
  tl::expected<std::shared_ptr<SocketEvents>, HttpResponse> on_socket(const HttpRequest& request, std::weak_ptr<Socket> socket) override;
  const std::vector<std::pair<std::string, std::string>>& common_headers() const override { return kCommonHeaders; }

  // What a request shows of who sent it.
  struct Credentials {
    Visitor visitor;
    std::string session;  // Empty: a bearer token.
    WallTime expires{};   // Of the session.
  };
  tl::expected<Target, HttpResponse> admit(const HttpRequest& request);
  tl::expected<Credentials, HttpResponse> identify(const HttpRequest& request);
  std::optional<HttpResponse> check_change(const HttpRequest& request, const Credentials& who) const;
  HttpResponse static_file(const HttpRequest& request, const std::string& path) const;
  HttpResponse login(const Target& target, const HttpRequest& request);
  HttpResponse session_route(const HttpRequest& request);
  HttpResponse sign_in(const HttpRequest& request);
  HttpResponse session_body(const Visitor& visitor, WallTime expires) const;

  void changed();
  void flush();
  void check_clients();
  void check_clients_later();
  void follow_logs();
  void watch_certificate();
  void follow_objects();
  void ask_objects();

  const DashboardOptions options;
  ClusterPort& cluster;
  const Clock& clock;
  const HostGuard guard;
  std::mutex sign_in_mutex;  // Links are made by other threads.
  SignIn sign_ins;
  RequestBrake brake;
  std::optional<CertificateWatch> certificate;
  LiveModel model;
  Api api;
  std::set<std::shared_ptr<Client>> clients;
  bool flush_due = false;
  bool check_due = false;
  bool logs_followed = false;
  bool objects_followed = false;
  uint16_t port_before = 0;
  std::unique_ptr<HttpServer> server;  // Last: nothing runs once it has ended.
};

class Dashboard::Impl::Client final : public SocketEvents, public std::enable_shared_from_this<Client> {
 public:
  Client(Impl& dashboard, std::weak_ptr<Socket> socket, Credentials who, std::shared_ptr<Feed> feed = nullptr)
      : dashboard_(dashboard), socket_(std::move(socket)), feed_(std::move(feed)), who_(std::move(who)), live_(dashboard.model, milliseconds(dashboard.clock.wall()), [this](const auto& wanted) { ask_logs(wanted); }) {}

  void on_text(std::string_view text) override {
    if (!live_.on_text(text)) return end(live_.why());
    dashboard_.follow_logs();
    dashboard_.follow_objects();
    pump();
  }
  void on_written() override { pump(); }
  void on_closed() override {
    const auto self = shared_from_this();
    dashboard_.clients.erase(self);
    dashboard_.api.clients = dashboard_.clients.size();
    dashboard_.follow_logs();
  }

  // The next message that is due, if the connection can take one.
  void pump() {
    if (feed_) {
      while (!feed_->busy()) {
        auto message = live_.next();
        if (!message) return;
        feed_->send(std::move(*message), dashboard_.model.seq(), dashboard_.model.instance(), live_.resumable());
      }
      return;
    }
    const auto socket = socket_.lock();
    if (!socket || socket->busy()) return;
    if (auto message = live_.next()) socket->send(std::move(*message));
  }
  void end(std::string_view why) {
    if (feed_) return feed_->close(bye_text(why));
    if (const auto socket = socket_.lock()) socket->close(bye_text(why));
  }
  const Credentials& who() const { return who_; }
  bool follows_logs() const { return live_.follows_logs(); }
  bool wants_objects() const { return live_.wants_objects(); }

 private:
  void ask_logs(const LiveClient::LogsWanted& wanted) {
    constexpr int kTail = 200;
    if (!dashboard_.logs_followed) {
      dashboard_.logs_followed = true;
      dashboard_.cluster.follow_logs(true);
    }
    dashboard_.cluster.logs(wanted.id, wanted.node, kTail, [&dashboard = dashboard_, self = weak_from_this(), id = wanted.subscription](Result<LiveClient::FoundLogs> found) {
      dashboard.server->post([self, id, found = std::move(found)] {
        const auto here = self.lock();
        if (!here) return;
        here->live_.give_logs(id, found);
        here->pump();
      });
    });
  }

  Impl& dashboard_;
  const std::weak_ptr<Socket> socket_;
  const std::shared_ptr<Feed> feed_;  // In its place.
  const Credentials who_;
  LiveClient live_;
};

// ---- start, state ----

std::string Dashboard::Impl::random_name() {
  std::string name;
  const security::Secret bytes = security::Secret::random(8);
  for (const char c : bytes.reveal()) name += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return name;
}

void Dashboard::Impl::load_state() {
  const auto text = read_file_limited(options.state_file, kStateBytesMax);
  if (!text) return;
  const auto state = nlohmann::json::parse(*text, nullptr, false);
  if (!state.is_object()) return;
  if (const auto port = state.find("port"); port != state.end() && port->is_number_unsigned() && port->get<uint64_t>() <= 65535) port_before = port->get<uint16_t>();
  if (const auto sessions = state.find("sessions"); sessions != state.end()) sign_ins.load(sessions->dump(), clock.wall());
}

void Dashboard::Impl::save_state() {
  if (options.state_file.empty()) return;
  std::string sessions;
  {
    std::lock_guard lock(sign_in_mutex);
    sessions = sign_ins.save(clock.wall());
  }
  const auto saved = write_file_atomic(options.state_file, fmt::format("{{\"port\":{},\"sessions\":{}}}\n", server->port(), sessions), 0600);
  if (!saved) log::warn("dashboard", "sessions will not survive a restart", {{"why", saved.error().message}});
}

Result<void> Dashboard::Impl::start() {
  load_state();
  HttpServerOptions serve{.bind = options.bind, .port = options.port, .certificate_pem = options.certificate_pem, .key_pem = options.key_pem, .limits = options.http};
  if (options.port == 0 && port_before != 0) {
    serve.port = port_before;
    if (auto again = HttpServer::listen(serve)) {
      server = std::move(*again);
    } else {
      serve.port = 0;
      log::warn("dashboard", "its port of last time is taken, another one is used", {{"port", port_before}});
    }
  }
  if (!server) {
    auto made = HttpServer::listen(serve);
    if (!made) return make_error(made.error());
    server = std::move(*made);
  }
  if (server->port() != port_before) save_state();
  server->run(*this);
  if (options.own_certificate) {
    certificate.emplace(*options.own_certificate);
    server->post([this] { watch_certificate(); });
  }
  return {};
}

void Dashboard::Impl::watch_certificate() {
  if (const auto found = certificate->changed(clock.wall())) {
    const Result<void> used = *found ? server->set_certificate((*found)->certificate_pem, (*found)->key_pem) : make_error(found->error());
    if (used) {
      log::info("dashboard", "a new certificate is used from now on", {{"file", options.own_certificate->certificate.string()}});
    } else {
      log::warn("dashboard", "the changed certificate is not used, the one before goes on", {{"why", used.error().message}});
    }
  }
  server->post_after(kCertificateEvery, [this] { watch_certificate(); });
}

std::string Dashboard::Impl::cookie(std::string_view value, std::chrono::seconds life) const {
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{}", cookie_name(), value, life.count(), is_tls() ? "; Secure" : "");
}

// ---- requests ----

tl::expected<Target, HttpResponse> Dashboard::Impl::admit(const HttpRequest& request) {
  if (!brake.may_ask(request.peer, clock.now())) {
    HttpResponse slow = problem(429, {ErrorCode::kUnavailable, fmt::format("more than {} requests a second from {}", RequestBrake::kPerSecond, request.peer)}, "ask less often, or follow /ws");
    slow.headers.emplace_back("Retry-After", "1");
    return tl::unexpected(std::move(slow));
  }
  if (request.count("host") != 1) return tl::unexpected(problem(400, {ErrorCode::kInvalidArgument, "a request names its host once"}));
  const std::string_view host = request.header("host");
  if (!guard.is_ours(host)) {
    return tl::unexpected(problem(421, {ErrorCode::kInvalidArgument, "this server does not go by the name in the Host header"},
                                  "open it by its address, or start the head with --public-url"));
  }
  if (const std::string_view origin = request.header("origin"); request.count("origin") > 0 && !guard.same_origin(origin, host, request.tls)) {
    return tl::unexpected(problem(403, {ErrorCode::kPermissionDenied, "pages of other sites may not ask this server"}));
  }
  auto target = parse_target(request.target);
  if (!target) return tl::unexpected(problem(target.error()));
  return std::move(*target);
}

tl::expected<Dashboard::Impl::Credentials, HttpResponse> Dashboard::Impl::identify(const HttpRequest& request) {
  const auto refused = [](const std::string& why) {
    return tl::unexpected(problem(401, {ErrorCode::kUnauthenticated, why}, "open the link that `volador dashboard` prints, or send Authorization: Bearer with a token"));
  };
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.header("authorization");
  if (!authorization.empty()) {
    if (!brake.may_guess(request.peer, clock.now())) {
      return tl::unexpected(problem(429, {ErrorCode::kUnavailable, "too many wrong tokens from there; wait a minute"}));
    }
    if (!authorization.starts_with(kBearer) || request.count("authorization") != 1) return refused("Authorization: expected one Bearer token");
    auto visitor = cluster.bearer(authorization.substr(kBearer.size()));
    if (visitor) return Credentials{.visitor = std::move(*visitor)};
    if (visitor.error().code == ErrorCode::kPermissionDenied) return tl::unexpected(problem(visitor.error()));
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
  if (!found || !cluster.token_counts(found->visitor.token_id)) return refused("the session has ended");
  return Credentials{.visitor = found->visitor, .session = session, .expires = found->expires};
}

// A browser sends its cookie whoever made the page: what changes something must come from ours.
std::optional<HttpResponse> Dashboard::Impl::check_change(const HttpRequest& request, const Credentials& who) const {
  if (request.method == "GET" || request.method == "HEAD" || who.session.empty()) return std::nullopt;
  const bool from_our_page = request.header("x-volador-request") == "1" && guard.same_origin(request.header("origin"), request.header("host"), request.tls);
  if (from_our_page) return std::nullopt;
  return problem(403, {ErrorCode::kPermissionDenied, "a change by cookie needs the header X-Volador-Request: 1 and comes from the page itself"});
}

void Dashboard::Impl::on_request(HttpRequest request, Respond respond) {
  auto target = admit(request);
  if (!target) return respond(std::move(target.error()));
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (target->path == "/api/v1/session") return respond(session_route(request));
  const Api::Match match = Api::match(request.method, target->path);
  if (match.allowed.empty() && !target->path.starts_with("/api/")) {
    if (!reads) return respond(problem(405, {ErrorCode::kInvalidArgument, fmt::format("{} is not allowed here", request.method)}));
    if (target->path == "/healthz") return respond(json_response("{\"status\":\"ok\"}"));
    if (target->path == "/login") return respond(login(*target, request));
    if (target->path == "/ws") return respond(problem(400, {ErrorCode::kInvalidArgument, "/ws takes WebSocket connections"}));
    return respond(static_file(request, target->path));
  }
  auto who = identify(request);
  if (!who) return respond(std::move(who.error()));
  if (match.allowed.empty()) return respond(problem(404, {ErrorCode::kNotFound, "the API has no such route"}, "GET /api/v1/openapi.json describes those that there are"));
  if (match.route == nullptr) {
    HttpResponse response = problem(405, {ErrorCode::kInvalidArgument, fmt::format("{} is not allowed here; {} is", request.method, match.allowed)});
    response.headers.emplace_back("Allow", match.allowed);
    return respond(std::move(response));
  }
  if (who->visitor.access < match.route->access) {
    return respond(problem(403, {ErrorCode::kPermissionDenied, fmt::format("this is for role {}; you have role {}", to_string(match.route->access), to_string(who->visitor.access))}));
  }
  if (auto refusal = check_change(request, *who)) return respond(std::move(*refusal));
  try {
    api.answer(*match.route, {.path = match.parameters, .query = target->query, .body = request.body}, respond);
  } catch (const std::exception& error) {
    log::error("dashboard", "a route failed", {{"route", match.route->pattern}, {"what", error.what()}});
    respond(problem(500, {ErrorCode::kInternal, "this is a fault of Volador; the head's log has more"}));
  }
}

HttpResponse Dashboard::Impl::static_file(const HttpRequest& request, const std::string& path) const {
  const std::string wanted = path == "/" ? "/index.html" : path;
  for (const WebAsset& asset : web_assets()) {
    if (asset.path != wanted) continue;
    const bool packed = request.header("accept-encoding").find("gzip") != std::string_view::npos && asset.gzip.size() < asset.bytes.size();
    const std::string tag = '"' + security::hex(security::sha256(asset.bytes)).substr(0, 16) + (packed ? "-gz\"" : "\"");
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
  if (wanted == "/index.html") return {.content_type = "text/html; charset=utf-8", .fixed_body = kNoPage, .headers = {{"Cache-Control", "no-cache"}}};
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
  object.text("cluster", options.cluster);
  object.text("version", kVersion);
  if (!options.view_of.empty()) object.text("view", options.view_of);
  object.integer("expires_ms", milliseconds(expires));
  object.end();
  return json_response(std::move(body));
}

HttpResponse Dashboard::Impl::sign_in(const HttpRequest& request) {
  if (request.header("x-volador-request") != "1" && request.count("origin") > 0) {
    return problem(403, {ErrorCode::kPermissionDenied, "signing in from a page needs the header X-Volador-Request: 1"});
  }
  if (!brake.may_guess(request.peer, clock.now())) return problem(429, {ErrorCode::kUnavailable, "too many wrong tokens from there; wait a minute"});
  const auto body = nlohmann::json::parse(request.body, nullptr, false);
  if (!body.is_object() || !body.contains("token") || !body["token"].is_string()) return problem({ErrorCode::kInvalidArgument, "expected {\"token\":\"vt1.…\"}"});
  auto visitor = cluster.bearer(body["token"].get<std::string>());
  if (!visitor) {
    brake.guessed_wrong(request.peer, clock.now());
    return problem(visitor.error());
  }
  const WallTime now = clock.wall();
  std::string session;
  {
    std::lock_guard lock(sign_in_mutex);
    session = sign_ins.open(*visitor, now);
  }
  save_state();
  log::info("dashboard", "signed in with a token", {{"token", visitor->token_id}, {"peer", request.peer}});
  HttpResponse response = session_body(*visitor, now + SignIn::kSessionLife);
  response.headers.emplace_back("Set-Cookie", cookie(session, SignIn::kSessionLife));
  return response;
}

HttpResponse Dashboard::Impl::session_route(const HttpRequest& request) {
  if (request.method == "POST") return sign_in(request);
  const bool known = request.method == "GET" || request.method == "HEAD" || request.method == "DELETE";
  auto who = identify(request);
  if (!who) return std::move(who.error());
  if (!known) {
    HttpResponse response = problem(405, {ErrorCode::kInvalidArgument, fmt::format("{} is not allowed here", request.method)});
    response.headers.emplace_back("Allow", "GET, POST, DELETE");
    return response;
  }
  if (request.method != "DELETE") return session_body(who->visitor, who->expires);
  if (auto refusal = check_change(request, *who)) return std::move(*refusal);
  {
    std::lock_guard lock(sign_in_mutex);
    sign_ins.close(who->session);
  }
  save_state();
  for (const auto& client : std::set(clients)) {
    if (!who->session.empty() && client->who().session == who->session) client->end("signed out");
  }
  HttpResponse response = json_response("{}");
  response.headers.emplace_back("Set-Cookie", cookie("", 0s));
  return response;
}

// ---- live state ----

tl::expected<std::shared_ptr<SocketEvents>, HttpResponse> Dashboard::Impl::on_socket(const HttpRequest& request, std::weak_ptr<Socket> socket) {
  auto target = admit(request);
  if (!target) return tl::unexpected(std::move(target.error()));
  if (target->path != "/ws") return tl::unexpected(problem(404, {ErrorCode::kNotFound, "WebSockets are served at /ws"}));
  auto who = identify(request);
  if (!who) return tl::unexpected(std::move(who.error()));
  if (!who->session.empty() && !guard.same_origin(request.header("origin"), request.header("host"), request.tls)) {
    return tl::unexpected(problem(403, {ErrorCode::kPermissionDenied, "a WebSocket by cookie comes from the page itself"}));
  }
  auto client = std::make_shared<Client>(*this, std::move(socket), std::move(*who));
  clients.insert(client);
  api.clients = clients.size();
  check_clients_later();
  server->post([client] { client->pump(); });
  return client;
}

void Dashboard::Impl::check_clients_later() {
  if (!std::exchange(check_due, true)) server->post_after(kCheckEvery, [this] { check_clients(); });
}

void Dashboard::Impl::changed() {
  if (clients.empty() || std::exchange(flush_due, true)) return;
  server->post_after(kFlushEvery, [this] { flush(); });
}

void Dashboard::Impl::flush() {
  flush_due = false;
  for (const auto& client : clients) client->pump();
}

void Dashboard::Impl::check_clients() {
  check_due = false;
  for (const auto& client : std::set(clients)) {
    const Credentials& who = client->who();
    bool counts = cluster.token_counts(who.visitor.token_id);
    if (counts && !who.session.empty()) {
      std::lock_guard lock(sign_in_mutex);
      counts = sign_ins.find(who.session, clock.wall()).has_value();
    }
    if (!counts) client->end("the session has ended");
  }
  if (clients.empty()) return;
  check_due = true;
  server->post_after(kCheckEvery, [this] { check_clients(); });
}

void Dashboard::Impl::follow_logs() {
  const bool wanted = std::any_of(clients.begin(), clients.end(), [](const auto& client) { return client->follows_logs(); });
  if (wanted == logs_followed) return;
  logs_followed = wanted;
  cluster.follow_logs(wanted);
}

// From the first who looks until a while after the last one.
void Dashboard::Impl::follow_objects() {
  const bool wanted = std::any_of(clients.begin(), clients.end(), [](const auto& client) { return client->wants_objects(); });
  if (wanted && !std::exchange(objects_followed, true)) ask_objects();
}

void Dashboard::Impl::ask_objects() {
  cluster.objects(Api::kObjectsMax, [this](Result<v1::ListObjectsReply> found) {
    server->post([this, found = std::move(found)] {
      if (found) model.set_objects(*found);
      changed();
      server->post_after(kObjectsEvery, [this] {
        objects_followed = false;
        follow_objects();
        if (!objects_followed) model.forget_objects();
      });
    });
  });
}

// ---- the public face ----

Dashboard::Dashboard(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Dashboard::~Dashboard() { stop(); }

Result<std::unique_ptr<Dashboard>> Dashboard::start(const DashboardOptions& options, ClusterPort& port, const Clock& clock) {
  auto impl = std::make_unique<Impl>(options, port, clock);
  VOLADOR_TRY(impl->start());
  return std::unique_ptr<Dashboard>(new Dashboard(std::move(impl)));
}

std::string Dashboard::url() const {
  const DashboardOptions& options = impl_->options;
  if (!options.public_url.empty()) return options.public_url.ends_with('/') ? options.public_url.substr(0, options.public_url.size() - 1) : options.public_url;
  const std::string& host = options.host.empty() ? options.bind : options.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", impl_->is_tls() ? "https" : "http", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port());
}

uint16_t Dashboard::port() const { return impl_->server->port(); }

std::string Dashboard::login_link(const Visitor& visitor) {
  std::lock_guard lock(impl_->sign_in_mutex);
  return url() + "/login?key=" + impl_->sign_ins.make_key(visitor, impl_->clock.wall());
}

Dashboard::Follower Dashboard::follow(Visitor visitor, std::shared_ptr<Feed> feed, std::string first) {
  const auto client = std::make_shared<std::shared_ptr<Impl::Client>>();  // Made, used and ended on the server's thread.
  impl_->server->post([impl = impl_.get(), client, visitor = std::move(visitor), feed = std::move(feed), first = std::move(first)] {
    *client = std::make_shared<Impl::Client>(*impl, std::weak_ptr<Socket>(), Impl::Credentials{.visitor = visitor}, feed);
    impl->clients.insert(*client);
    impl->check_clients_later();
    (*client)->on_text(first);
  });
  return {.on_written = [impl = impl_.get(), client] { impl->server->post([client] { if (*client) (*client)->pump(); }); },
          .on_closed = [impl = impl_.get(), client] {
            impl->server->post([client] {
              if (const auto ended = std::exchange(*client, nullptr)) ended->on_closed();
            });
          }};
}

void Dashboard::apply(v1::Changes changes) {
  impl_->server->post([impl = impl_.get(), changes = std::move(changes)] {
    impl->model.apply(changes, milliseconds(impl->clock.wall()));
    impl->changed();
  });
}

void Dashboard::set_times(std::string experiment, WallTime started, WallTime updated) {
  impl_->server->post([impl = impl_.get(), experiment = std::move(experiment), started, updated] {
    impl->model.set_times(experiment, milliseconds(started), milliseconds(updated));
    impl->changed();
  });
}

void Dashboard::add_log_lines(std::string actor, std::vector<v1::LogLine> lines) {
  impl_->server->post([impl = impl_.get(), actor = std::move(actor), lines = std::move(lines)] {
    impl->model.add_log_lines(actor, lines);
    impl->changed();
  });
}

void Dashboard::stop() {
  if (impl_->server) impl_->server->stop();
}

}  // namespace volador::dashboard
