#include "dashboard/dashboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dashboard/dashboard_impl.h"
#include "dashboard/json_text.h"
#include "dashboard/live_client.h"
#include "runtime/log.h"
#include "runtime/operations/registry.h"
#include "runtime/paths.h"
#include "runtime/security/secret.h"

namespace volador::dashboard {
namespace {

using namespace std::chrono_literals;

constexpr auto kFlushEvery = 20ms;
constexpr auto kObjectsEvery = 2s;      // Interval of polling the nodes while clients subscribe.
constexpr auto kCheckEvery = 2s;        // Interval of checking the access of open WebSockets and sending them the time.
constexpr auto kCertificateEvery = 5s;  // Interval of checking for changes.
constexpr size_t kStateBytesMax = 1 << 20;

}  // namespace

class Dashboard::Impl::Client final : public SocketEvents, public std::enable_shared_from_this<Client> {
 public:
  Client(Impl& dashboard, std::weak_ptr<Socket> socket, Credentials who, std::shared_ptr<Feed> feed = nullptr)
      : dashboard_(dashboard),
        socket_(std::move(socket)),
        feed_(std::move(feed)),
        who_(std::move(who)),
        live_(dashboard.model, unix_ms(dashboard.clock.wall()), [this](const auto& wanted) { ask_logs(wanted); }) {}

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

  // Sends the next due message if the connection can take one.
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
  // Tells a browser how old its rows are; other readers get the time from their feed.
  void tell_time(int64_t now_ms) {
    if (feed_) return;
    live_.tell_time(now_ms);
    pump();
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
    dashboard_.cluster.logs(principal_of(who_.visitor, {}), wanted.id, wanted.node, kTail,
                            [&dashboard = dashboard_, self = weak_from_this(),
                             id = wanted.subscription](Result<LiveClient::FoundLogs> found) {
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
  const std::shared_ptr<Feed> feed_;  // Instead of a socket.
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
  if (const auto port = state.find("port");
      port != state.end() && port->is_number_unsigned() && port->get<uint64_t>() <= 65535)
    port_before = port->get<uint16_t>();
  if (const auto sessions = state.find("sessions"); sessions != state.end())
    sign_ins.load(sessions->dump(), clock.wall());
}

void Dashboard::Impl::save_state() {
  if (options.state_file.empty()) return;
  std::string sessions;
  {
    std::lock_guard lock(sign_in_mutex);
    sessions = sign_ins.save(clock.wall());
  }
  const auto saved = write_file_atomic(
      options.state_file, fmt::format("{{\"port\":{},\"sessions\":{}}}\n", server->port(), sessions), 0600);
  if (!saved) log::warn("dashboard", "sessions will not survive a restart", {{"why", saved.error().message}});
}

Result<void> Dashboard::Impl::start() {
  model.set_machine(options.machine_id);
  load_state();
  HttpServerOptions serve{.bind = options.bind,
                          .port = options.port,
                          .certificate_pem = options.certificate_pem,
                          .key_pem = options.key_pem,
                          .limits = options.http};
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
    const Result<void> used =
        *found ? server->set_certificate((*found)->certificate_pem, (*found)->key_pem) : make_error(found->error());
    if (used) {
      pages.set_certificate((*found)->certificate_pem, (*found)->key_pem);
      log::info("dashboard", "a new certificate is used from now on",
                {{"file", options.own_certificate->certificate.string()}});
    } else {
      log::warn("dashboard", "the changed certificate is not used, the one before goes on",
                {{"why", used.error().message}});
    }
  }
  server->post_after(kCertificateEvery, [this] { watch_certificate(); });
}

// ---- live state ----

tl::expected<std::shared_ptr<SocketEvents>, HttpResponse> Dashboard::Impl::on_socket(const HttpRequest& request,
                                                                                     std::weak_ptr<Socket> socket) {
  auto target = admit(request);
  if (!target) return tl::unexpected(std::move(target.error()));
  if (target->path != "/ws")
    return tl::unexpected(problem(404, {ErrorCode::kNotFound, "WebSockets are served at /ws"}));
  auto who = identify(request);
  if (!who) return tl::unexpected(std::move(who.error()));
  if (!who->session.empty() && !guard.same_origin(request.header("origin"), request.header("host"), request.tls)) {
    return tl::unexpected(
        problem(403, {ErrorCode::kPermissionDenied, "a WebSocket by cookie comes from the page itself"}));
  }
  auto client = std::make_shared<Client>(*this, std::move(socket), std::move(*who));
  clients.insert(client);
  api.clients = clients.size();
  check_clients_later();
  server->post([client] { client->pump(); });
  return client;
}

void Dashboard::Impl::end_clients_of(const std::string& session) {
  for (const auto& client : std::set(clients)) {
    if (!session.empty() && client->who().session == session) client->end("signed out");
  }
  pages.end_session(session);
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
    if (!access_of(client->who().visitor, client->who().session)) {
      client->end("the session has ended");
    } else {
      client->tell_time(unix_ms(clock.wall()));
    }
  }
  if (clients.empty()) return;
  check_due = true;
  server->post_after(kCheckEvery, [this] { check_clients(); });
}

void Dashboard::Impl::follow_logs() {
  const bool wanted =
      std::any_of(clients.begin(), clients.end(), [](const auto& client) { return client->follows_logs(); });
  if (wanted == logs_followed) return;
  logs_followed = wanted;
  cluster.follow_logs(wanted);
}

// Polls from the first subscriber until a while after the last one.
void Dashboard::Impl::follow_objects() {
  const bool wanted =
      std::any_of(clients.begin(), clients.end(), [](const auto& client) { return client->wants_objects(); });
  if (wanted && !std::exchange(objects_followed, true)) ask_objects();
}

void Dashboard::Impl::ask_objects() {
  v1::ListRequest request;
  request.set_limit(Api::kObjectsMax);
  const auto by = security::principal_of_token("", security::TokenRole::kViewer);
  cluster.registry().call<v1::ListObjectsReply>("Cluster/ListObjects", by, request,
                                                [this](Result<v1::ListObjectsReply> found) {
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

// ---- Dashboard ----

Dashboard::Dashboard(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Dashboard::~Dashboard() { stop(); }

Result<std::unique_ptr<Dashboard>> Dashboard::start(const DashboardOptions& options, ClusterPort& port,
                                                    const Clock& clock) {
  auto impl = std::make_unique<Impl>(options, port, clock);
  VOLADOR_TRY(impl->start());
  return std::unique_ptr<Dashboard>(new Dashboard(std::move(impl)));
}

std::string Dashboard::Impl::page_url() const {
  if (!options.public_url.empty())
    return options.public_url.ends_with('/') ? options.public_url.substr(0, options.public_url.size() - 1)
                                             : options.public_url;
  const std::string& host = options.host.empty() ? options.bind : options.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", is_tls() ? "https" : "http", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
                     server->port());
}

std::string Dashboard::url() const { return impl_->page_url(); }

uint16_t Dashboard::port() const { return impl_->server->port(); }

std::string Dashboard::login_link(const Visitor& visitor) {
  std::lock_guard lock(impl_->sign_in_mutex);
  return url() + "/login?key=" + impl_->sign_ins.make_key(visitor, impl_->clock.wall());
}

Dashboard::Follower Dashboard::follow(Visitor visitor, std::shared_ptr<Feed> feed, std::string first) {
  // Created, used and destroyed on the server's thread.
  const auto client = std::make_shared<std::shared_ptr<Impl::Client>>();
  impl_->server->post(
      [impl = impl_.get(), client, visitor = std::move(visitor), feed = std::move(feed), first = std::move(first)] {
        *client =
            std::make_shared<Impl::Client>(*impl, std::weak_ptr<Socket>(), Impl::Credentials{.visitor = visitor}, feed);
        impl->clients.insert(*client);
        impl->check_clients_later();
        (*client)->on_text(first);
      });
  return {.on_written =
              [impl = impl_.get(), client] {
                impl->server->post([client] {
                  if (*client) (*client)->pump();
                });
              },
          .on_closed =
              [impl = impl_.get(), client] {
                impl->server->post([client] {
                  if (const auto ended = std::exchange(*client, nullptr)) ended->on_closed();
                });
              }};
}

void Dashboard::list(security::Principal by, std::string topic, std::string of,
                     std::map<std::string, std::string> query, std::function<void(Result<std::string>)> done) {
  impl_->server->post([impl = impl_.get(), by = std::move(by), topic = std::move(topic), of = std::move(of),
                       query = std::move(query), done = std::move(done)] {
    const Api::Route* route = Api::list_of(topic, !of.empty());
    if (route == nullptr)
      return done(
          make_error(ErrorCode::kInvalidArgument,
                     fmt::format("there is no list \"{}\"{}", topic, of.empty() ? "" : fmt::format(" of \"{}\"", of))));
    impl->api.answer(
        *route, {.path = {{"name", of}}, .query = query, .body = {}, .by = by}, [done](HttpResponse response) {
          if (response.status == 200) return done(std::move(response.body));
          const auto problem = nlohmann::json::parse(response.body, nullptr, false);
          done(make_error(error_code_from(std::string_view(problem.value("code", ""))), problem.value("detail", "")));
        });
  });
}

void Dashboard::apply(v1::Changes changes) {
  impl_->server->post([impl = impl_.get(), changes = std::move(changes)] {
    impl->model.apply(changes, unix_ms(impl->clock.wall()));
    impl->changed();
  });
}

void Dashboard::restore(PastRun past, std::function<void()> done) {
  impl_->server->post([impl = impl_.get(), past = std::move(past), done = std::move(done)] {
    impl->model.restore(past);
    impl->changed();
    done();
  });
}

void Dashboard::set_times(std::string experiment, WallTime started, WallTime updated) {
  impl_->server->post([impl = impl_.get(), experiment = std::move(experiment), started, updated] {
    impl->model.set_times(experiment, unix_ms(started), unix_ms(updated));
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
  impl_->pages.stop();
}

}  // namespace volador::dashboard
