// Implementation of the dashboard server. For its .cc files only.
#pragma once

#include <mutex>
#include <optional>
#include <set>

#include "dashboard/api.h"
#include "dashboard/certificate_watch.h"
#include "dashboard/dashboard.h"
#include "dashboard/live_model.h"
#include "dashboard/page_ports.h"
#include "dashboard/request_guard.h"

namespace volador::dashboard {

// Headers of every response.
const std::vector<std::pair<std::string, std::string>>& guarding_headers();

struct Dashboard::Impl final : HttpHandler {
  Impl(DashboardOptions o, ClusterPort& p, const Clock& c)
      : options(std::move(o)),
        cluster(p),
        clock(c),
        guard(all_names(), options.public_url),
        model(random_name(), unix_ms(clock.wall()), options.cluster_address),
        api(
            model, p, [this](std::function<void()> function) { server->post(std::move(function)); },
            [this] { return unix_ms(clock.wall()); }),
        pages(
            {.bind = options.bind,
             .certificate_pem = options.certificate_pem,
             .key_pem = options.key_pem,
             .guard = &guard},
            p.registry(), [this](const PageTarget& target) { return access_of(target.visitor, target.session); }, c) {}

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
  std::string page_url() const;
  bool is_tls() const { return !options.certificate_pem.empty(); }
  std::string cookie_name() const { return fmt::format("volador_session_{}", server->port()); }
  std::string cookie(std::string_view value, std::chrono::seconds life) const;
  std::string provider_cookie(std::string_view binding) const;

  // HttpHandler; all on the server's thread.
  void on_request(HttpRequest request, Respond respond) override;
  tl::expected<std::shared_ptr<SocketEvents>, HttpResponse> on_socket(const HttpRequest& request,
                                                                      std::weak_ptr<Socket> socket) override;
  const std::vector<std::pair<std::string, std::string>>& common_headers() const override { return guarding_headers(); }

  // The authenticated sender of a request.
  struct Credentials {
    Visitor visitor;
    std::string session;  // Empty: a bearer token.
    WallTime expires{};   // End of the session.
  };
  bool may_ask(const HttpRequest& request);
  tl::expected<Target, HttpResponse> admit(const HttpRequest& request);
  tl::expected<Credentials, HttpResponse> identify(const HttpRequest& request);
  static Credentials proved(const HttpRequest& request, Credentials who);
  std::optional<HttpResponse> check_change(const HttpRequest& request, const Credentials& who) const;
  HttpResponse static_file(const HttpRequest& request, const std::string& path) const;
  HttpResponse login(const Target& target, const HttpRequest& request);
  void session_route(const HttpRequest& request, const Respond& respond);
  HttpResponse end_session(const HttpRequest& request, const Credentials& who);
  // What the visitor may do now; nullopt: the session or token has ended. `session`: empty for a bearer token. Thread
  // safe.
  std::optional<Access> access_of(const Visitor& visitor, const std::string& session);
  // Opens the page of a server in a job.
  HttpResponse page_route(const HttpRequest& request, const Target& target);
  void sign_in(const HttpRequest& request, const Respond& respond);
  void sign_in_with_password(const HttpRequest& request, const std::string& user, const std::string& password,
                             const Respond& respond);
  void provider_route(const Target& target, const HttpRequest& request, const Respond& respond);
  void begin_provider_sign_in(const Target& target, const HttpRequest& request, const Respond& respond);
  void finish_provider_sign_in(const Target& target, const HttpRequest& request, const Respond& respond);
  void approve_command_line(const HttpRequest& request, const Respond& respond);
  HttpResponse open_session(const HttpRequest& request, const Visitor& visitor);
  HttpResponse session_body(const Visitor& visitor, WallTime expires) const;

  void changed();
  void end_clients_of(const std::string& session);
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
  std::mutex sign_in_mutex;  // Links are created by other threads.
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
  PagePorts pages;
  std::unique_ptr<HttpServer> server;  // Last member: nothing runs once it is destroyed.
};

}  // namespace volador::dashboard
