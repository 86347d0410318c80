// The dashboard's server: the page, the HTTP API and live state over WebSocket, from a read copy that the head feeds.
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

namespace volador::dashboard {

struct PastRun;

struct DashboardOptions {
  std::string bind = "127.0.0.1";
  uint16_t port = 0;                   // 0: that of last time where it is free, else a free one.
  std::string host;                    // In the address that is printed; empty: `bind`.
  std::vector<std::string> names = {};  // Further names under which it is called.
  std::string public_url;              // Of a proxy before it; empty: none.
  std::string certificate_pem, key_pem;  // Both or neither.
  std::optional<security::OwnCertificateFiles> own_certificate = {};  // Where these two come from; read again when the files change.
  std::string cluster;                 // Its name.
  std::string cluster_address;         // Of the head.
  std::string view_of;                 // Of results on disk and no cluster: where they lie; the page shows experiments only.
  std::string machine_id = {};         // Of this one; files of runs on it can be downloaded. Empty: none can.
  std::filesystem::path state_file;    // Port and sessions, 0600; they survive a restart.
  HttpLimits http = {};
};

class Dashboard {
 public:
  // Serves when it returns. kUnavailable: the port that was asked for is in use; kInvalidArgument: the address or the certificate.
  // `port` and `clock` outlive it.
  [[nodiscard]] static Result<std::unique_ptr<Dashboard>> start(const DashboardOptions& options, ClusterPort& port, const Clock& clock);
  // As stop().
  ~Dashboard();

  // "http://127.0.0.1:41234"; the public one where there is a proxy.
  std::string url() const;
  uint16_t port() const;
  // A link that signs in once, within SignIn::kKeyLife, with what this visitor may. Thread safe.
  std::string login_link(const Visitor& visitor);

  // Somebody who came another way than by a WebSocket, and is told the same: `socket` takes the messages, `first` is what it says first
  // ({"op":"sub",…}). It is cut where the token behind it ends. The events are to be told, on any thread. Thread safe.
  struct Follower {
    std::function<void()> on_written, on_closed;
  };
  // A message with what a reader needs to go on from it elsewhere.
  class Feed {
   public:
    virtual ~Feed() = default;
    virtual bool busy() const = 0;
    virtual void send(std::string text, uint64_t seq, const std::string& instance, bool resumable) = 0;
    virtual void close(std::string last) = 0;
  };
  Follower follow(Visitor visitor, std::shared_ptr<Feed> feed, std::string first);

  // A page of a list as its route answers it: topic is that route's last word, or "study_trials", and `of` the experiment or study. `done` runs
  // on the server's thread, or is dropped where it stops. kInvalidArgument: there is no such list, or the query is wrong. Thread safe.
  void list(std::string topic, std::string of, std::map<std::string, std::string> query, std::function<void(Result<std::string>)> done);

  // What the head says has changed. Thread safe; returns at once.
  void apply(v1::Changes changes);
  // As LiveModel; `done` on the server's thread, or never where it stops. Thread safe; returns at once.
  void restore(PastRun past, std::function<void()> done);
  // As LiveModel. Thread safe; returns at once.
  void set_times(std::string experiment, WallTime started, WallTime updated);
  void add_log_lines(std::string actor, std::vector<v1::LogLine> lines);

  // Connections are closed when it returns. Repeated calls do nothing.
  void stop();

 private:
  struct Impl;
  explicit Dashboard(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::dashboard
