// The dashboard server: web page, HTTP API and live state over WebSocket, from a read copy fed by the head.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dashboard/cluster_port.h"
#include "dashboard/http_server.h"
#include "dashboard/sign_in.h"
#include "runtime/clock.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/result.h"
#include "runtime/security/own_certificate.h"
#include "runtime/security/principal.h"

namespace volador::dashboard {

struct PastRun;

// Configuration of the dashboard.
struct DashboardOptions {
  std::string bind = "127.0.0.1";
  uint16_t port = 0;                     // 0: the previous port if it is free, else any free one.
  std::string host;                      // Host in the printed address; empty: `bind`.
  std::vector<std::string> names = {};   // Additional accepted host names.
  std::string public_url;                // URL of a reverse proxy; empty: none.
  std::string certificate_pem, key_pem;  // Set both or neither.
  // Source files of the certificate and key; reloaded when they change.
  std::optional<security::OwnCertificateFiles> own_certificate = {};
  std::string cluster;          // Cluster name.
  std::string cluster_address;  // Address of the head.
  // Folder of results on disk, for a view without a cluster; the page then shows experiments only.
  std::string view_of;
  std::string machine_id = {};       // This machine; files of its runs can be downloaded. Empty: no downloads.
  std::filesystem::path state_file;  // Port and sessions (mode 0600); survives a restart.
  HttpLimits http = {};
};

class Dashboard {
 public:
  // Serves when it returns. kUnavailable: the requested port is in use; kInvalidArgument: the address or the
  // certificate. `port` and `clock` must outlive it.
  [[nodiscard]] static Result<std::unique_ptr<Dashboard>> start(const DashboardOptions& options, ClusterPort& port,
                                                                const Clock& clock);
  // Calls stop().
  ~Dashboard();

  // "http://127.0.0.1:41234"; the public URL if there is a proxy.
  std::string url() const;
  uint16_t port() const;
  // A single-use sign-in link with the visitor's access, valid for SignIn::kKeyLife. Thread safe.
  std::string login_link(const Visitor& visitor);

  // A client without a WebSocket that gets the same messages: `socket` receives them, `first` is its first message
  // ({"op":"sub",…}). It sees what the visitor may see, and is disconnected when its token ends. The caller must report the events, on any thread. Thread
  // safe.
  struct Follower {
    std::function<void()> on_written, on_closed;
  };
  // Receives each message with the data a reader needs to resume from it on another connection.
  class Feed {
   public:
    virtual ~Feed() = default;
    virtual bool busy() const = 0;
    virtual void send(std::string text, uint64_t seq, const std::string& instance, bool resumable) = 0;
    virtual void close(std::string last) = 0;
  };
  Follower follow(Visitor visitor, std::shared_ptr<Feed> feed, std::string first);

  // A page of a list in the format of its route: `topic` is the last part of the route or "study_trials", `of` the
  // experiment or study. `done` runs on the server's thread; a stopping server drops it. kInvalidArgument: no such
  // list, or an invalid query. Thread safe.
  void list(security::Principal by, std::string topic, std::string of, std::map<std::string, std::string> query,
            std::function<void(Result<std::string>)> done);

  // Applies changes reported by the head. Thread safe; returns at once.
  void apply(v1::Changes changes);
  // See LiveModel; `done` runs on the server's thread; a stopping server drops it. Thread safe; returns at once.
  void restore(PastRun past, std::function<void()> done);
  // See LiveModel. Thread safe; returns at once.
  void set_times(std::string experiment, WallTime started, WallTime updated);
  void add_log_lines(std::string actor, std::vector<v1::LogLine> lines);

  // Closes all connections before it returns. Idempotent.
  void stop();

 private:
  struct Impl;
  explicit Dashboard(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::dashboard
