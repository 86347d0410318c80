#include "tests/bench/attacked_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/control/join.h"
#include "runtime/net/channel.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/random.h"
#include "runtime/security/tls_context.h"
#include "runtime/security/token.h"
#include "tests/bench/web_client.h"

namespace volador::bench {
namespace {

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

uint16_t port_of(const std::string& address) {
  return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

class HeadPort final : public AttackedPort {
 public:
  HeadPort() : AttackedPort(false) {
    port_ = port_of(cluster_.address());
    process_ = cluster_.head_pid();
    const auto token = must(security::parse_token(cluster_.operator_token()));
    api_ = must(control::ClusterApi::connect(cluster_.address(), token, std::chrono::seconds(10), clock_));
  }
  bool ask() override { return api_->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest()).has_value(); }

 private:
  const SystemClock clock_;
  std::unique_ptr<control::ClusterApi> api_;
};

class DashboardPort final : public AttackedPort {
 public:
  DashboardPort() : AttackedPort(true) {
    port_ = static_cast<uint16_t>(cluster_.dashboard_port());
    process_ = cluster_.head_pid();
  }
  bool ask() override {
    try {
      if (!client_) client_ = std::make_unique<WebClient>(port_, cluster_.operator_token());
      client_->get("/api/v1/session");
      return true;
    } catch (const std::exception&) {
      client_.reset();
      return false;
    }
  }

 private:
  std::unique_ptr<WebClient> client_;
};

// Returns the loopback port that a process other than the head listens on, by the sockets in /proc.
uint16_t listening_port(pid_t pid) {
  std::vector<std::string> inodes;
  std::error_code ignored;
  for (const auto& fd : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), ignored)) {
    inodes.push_back(std::filesystem::read_symlink(fd.path(), ignored).string());
  }
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    if (state != "0A" || std::ranges::find(inodes, fmt::format("socket:[{}]", inode)) == inodes.end()) continue;
    return static_cast<uint16_t>(std::stoi(local.substr(local.find(':') + 1), nullptr, 16));
  }
  return 0;
}

// The store rejects a driver because it serves nodes only; this response is sufficient for measuring latency.
class DataPortOfWorker final : public AttackedPort {
 public:
  DataPortOfWorker() : AttackedPort(false) {
    for (const pid_t pid : cluster_.pids()) {
      if (pid == cluster_.head_pid()) continue;
      if (const uint16_t found = listening_port(pid); found != 0) {
        port_ = found;
        process_ = pid;
      }
    }
    if (port_ == 0) throw std::runtime_error("the worker listens on no port");
    const SystemClock clock;
    const auto token = must(security::parse_token(cluster_.operator_token()));
    const auto joined = must(control::join(
        {.address = cluster_.address(), .token = token, .role = security::Role::kDriver, .name = "bench"}, clock));
    tls_ = must(security::TlsContext::create(joined.credentials));
    loop_ = must(net::IoLoop::create());
  }
  ~DataPortOfWorker() override {
    if (connection_) connection_->close();
  }
  bool ask() override {
    if (!connection_) {
      net::ConnectionOptions options;
      options.caller = new_id<net::CallerId>(random_);
      connection_ = net::CallConnection::connect(
          *loop_,
          net::TlsEndpoint{
              .host = "127.0.0.1", .port = port_, .server_name = std::string(security::kNodeServerName), .tls = tls_},
          options);
    }
    const auto answered = std::make_shared<std::promise<ErrorCode>>();
    auto answer = answered->get_future();
    net::CallRequest request;
    request.request_id = ++last_;
    request.timeout = std::chrono::seconds(10);
    connection_->call(std::move(request), [answered](const Result<std::string>& result) {
      answered->set_value(result ? ErrorCode::kInternal : result.error().code);
    });
    if (answer.get() == ErrorCode::kPermissionDenied) return true;
    connection_->close();
    connection_.reset();
    return false;
  }

 private:
  SystemRandom random_;
  std::shared_ptr<const security::TlsContext> tls_;
  std::unique_ptr<net::IoLoop> loop_;
  std::shared_ptr<net::CallConnection> connection_;
  uint64_t last_ = 0;
};

std::vector<std::string> flags(bool dashboard) {
  if (dashboard) return {};
  return {"--no-dashboard"};
}

}  // namespace

AttackedPort::AttackedPort(bool dashboard) : cluster_(flags(dashboard)) {}

std::unique_ptr<AttackedPort> AttackedPort::start(std::string_view kind) {
  if (kind == "head") return std::make_unique<HeadPort>();
  if (kind == "dashboard") return std::make_unique<DashboardPort>();
  if (kind == "data") return std::make_unique<DataPortOfWorker>();
  throw std::runtime_error(fmt::format("no such port: {}", kind));
}

}  // namespace volador::bench
