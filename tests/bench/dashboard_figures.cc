// Figures of the API and of live state: a cluster started by the command line, a driver with 10,000 trials, clients on
// sockets.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/bench/figure.h"
#include "tests/bench/made_up_members.h"
#include "tests/bench/process_memory.h"
#include "tests/bench/started_cluster.h"
#include "tests/bench/web_client.h"

namespace volador::bench {
namespace {

using namespace std::chrono_literals;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr double kDeltasPerSecond = 1'000;

double milliseconds_of(SteadyTime time) {
  return std::chrono::duration<double, std::milli>(time.time_since_epoch()).count();
}

void wait_for(const char* what, std::chrono::seconds most, const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error(fmt::format("never: {}", what));
    std::this_thread::sleep_for(5ms);
  }
}

void wait_for_trials(WebClient& web, size_t count) {
  wait_for("all trials in the API", 30s,
           [&] { return nlohmann::json::parse(web.get("/api/v1/trials?page_size=1")).at("total") == count; });
}

// Reports of a driver: one row with one point of a curve every 1/kDeltasPerSecond, cycling through the trials, each
// with its send time.
class Reports {
 public:
  explicit Reports(MadeUpDriver& driver) : thread_([this, &driver] { run(driver); }) {}
  ~Reports() {
    ends_ = true;
    thread_.join();
  }

 private:
  void run(MadeUpDriver& driver) {
    auto next = std::chrono::steady_clock::now();
    for (size_t at = 0; !ends_; ++at) {
      next += std::chrono::nanoseconds(static_cast<int64_t>(1e9 / kDeltasPerSecond));
      std::this_thread::sleep_until(next);
      protocol::ClientMessage message;
      auto& update = running_experiment(message, "digits", kMadeUpTrials);
      const auto step = static_cast<int64_t>(100 + at / kMadeUpTrials);
      auto& row = *update.add_trials() =
          trial_row(at % kMadeUpTrials, step, milliseconds_of(std::chrono::steady_clock::now()));
      auto& point = *row.add_points();
      point.set_step(step);
      point.set_time_s(static_cast<double>(step));
      (*point.mutable_metrics())["loss"] = row.metrics().at("loss");
      driver.send(std::move(message));
    }
  }

  std::atomic<bool> ends_{false};
  std::thread thread_;
};

// Clients that subscribe to the trials of the experiment, read by one thread.
class Readers {
 public:
  Readers(size_t count, int port, const std::string& token, WebLine::Tls tls) {
    for (size_t at = 0; at < count; ++at) {
      sockets_.push_back(std::make_unique<WebSocket>(port, token, tls));
      sockets_.back()->send(R"({"op":"sub","id":1,"topic":"trials","filter":{"experiment":"digits"}})");
      sockets_.back()->line().never_block();
    }
    rows_.resize(count);
    thread_ = std::thread([this] { run(); });
    wait_for("all rows at every client", 60s, [this] {
      return std::all_of(rows_.begin(), rows_.end(), [](const Rows& one) { return one.count >= kMadeUpTrials; }) ||
             failed_;
    });
  }
  ~Readers() {
    ends_ = true;
    thread_.join();
  }
  // Returns the milliseconds from sending to reading each report since the last call.
  std::vector<double> take() {
    if (failed_) throw std::runtime_error("a client was cut");
    const std::lock_guard lock(mutex_);
    if (milliseconds_.empty()) throw std::runtime_error("nothing came");
    return std::exchange(milliseconds_, {});
  }

 private:
  struct Rows {
    std::atomic<size_t> count{0};
    Rows() = default;
    Rows(Rows&& other) noexcept : count(other.count.load()) {}
  };

  void run() {
    std::vector<pollfd> fds;
    for (const auto& socket : sockets_) fds.push_back({.fd = socket->line().fd(), .events = POLLIN, .revents = 0});
    try {
      while (!ends_) {
        ::poll(fds.data(), fds.size(), 20);
        for (size_t at = 0; at < fds.size(); ++at) {
          if (fds[at].revents == 0) continue;
          while (sockets_[at]->poll([this, at](std::string_view message) { see(at, message); })) {
          }
        }
      }
    } catch (const std::exception&) {
      failed_ = true;
    }
  }

  void see(size_t client, std::string_view message) {
    constexpr std::string_view kRow = "\"experiment\":\"digits\"", kSent = "\"sent\":";
    const bool begins = rows_[client].count < kMadeUpTrials;
    if (begins) {
      for (size_t at = message.find(kRow); at != std::string_view::npos; at = message.find(kRow, at + 1))
        ++rows_[client].count;
    }
    const double now = milliseconds_of(std::chrono::steady_clock::now());
    const std::lock_guard lock(mutex_);
    for (size_t at = message.find(kSent); at != std::string_view::npos; at = message.find(kSent, at + 1)) {
      double sent = 0;
      const char* from = message.data() + at + kSent.size();
      std::from_chars(from, message.data() + message.size(), sent);
      milliseconds_.push_back(now - sent);
    }
  }

  std::vector<std::unique_ptr<WebSocket>> sockets_;
  std::vector<Rows> rows_;
  std::mutex mutex_;
  std::vector<double> milliseconds_;
  std::atomic<bool> ends_{false}, failed_{false};
  std::thread thread_;
};

Measured api_list_10k_trials() {
  constexpr int kRequests = 300;
  const StartedCluster cluster;
  WebClient web(cluster.dashboard_port(), cluster.operator_token());
  MadeUpDriver driver(cluster.address(), cluster.operator_token());
  driver.show_trials("digits", kMadeUpTrials);
  wait_for_trials(web, kMadeUpTrials);
  const auto run = [&](const std::string& query) {
    std::vector<double> took;
    for (int at = 0; at < kRequests; ++at) {
      const auto begin = std::chrono::steady_clock::now();
      web.get(fmt::format("/api/v1/experiments/digits/trials?page_size=100{}&page_token={}", query, at % 20 * 100));
      took.push_back(seconds_since(begin) * 1e3);
    }
    return p99(took);
  };
  Measured measured;
  for (int at = 0; at < 3; ++at)
    measured.values.push_back(run("&filter=status%3Dstopped%20config.lr%3E0.1&order=-metrics.loss"));
  measured.note = fmt::format(
      "aim 20 ms; pages of 100 of 10,000, filtered by two members and sorted by a third; with neither {:.2g}", run(""));
  return measured;
}

Measured ws_delta_latency() {
  constexpr size_t kClients = 20;
  constexpr auto kMeasured = 10s;
  const TemporaryHome files;
  const std::string certificate = files.path() / "bench.pem", key = files.path() / "bench.key";
  if (timed({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout",
             key, "-out", certificate, "-batch"},
            files.path()) < 0) {
    throw std::runtime_error("the openssl program is missing");
  }
  const StartedCluster cluster({"--tls-cert=" + certificate, "--tls-key=" + key});
  const std::string token = cluster.operator_token();
  MadeUpDriver driver(cluster.address(), token);
  driver.show_trials("digits", kMadeUpTrials);
  WebClient web(cluster.dashboard_port(), token, WebLine::Tls::kYes);
  wait_for_trials(web, kMadeUpTrials);
  Readers readers(kClients, cluster.dashboard_port(), token, WebLine::Tls::kYes);
  const Reports reports(driver);
  std::this_thread::sleep_for(2s);
  readers.take();
  Measured measured;
  size_t rows = 0;
  double median_ms = 0;
  for (int run = 0; run < 3; ++run) {
    std::this_thread::sleep_for(kMeasured);
    auto took = readers.take();
    rows += took.size();
    measured.values.push_back(p99(took));
    median_ms = median(took);
  }
  measured.note = fmt::format(
      "aim 50 ms; 20 clients with TLS, {:.0f} rows a second to each, median {:.1f} ms, from the driver's sending on",
      static_cast<double>(rows) / kClients / 30, median_ms);
  return measured;
}

// Milliseconds from the request for an actor to the head's start message to a node, which includes two streams and a
// commit of the journal.
std::vector<double> decisions(MadeUpDriver& driver, const std::string& address, const std::string& token,
                              const std::string& name, size_t count) {
  std::mutex mutex;
  std::map<std::string, SteadyTime> asked;
  std::vector<double> took;
  std::atomic<size_t> done{0};
  std::unique_ptr<MadeUpNode> node;
  std::atomic<MadeUpNode*> here{nullptr};
  node = std::make_unique<MadeUpNode>(
      address, token,
      MadeUpNode::Options{
          .name = name, .on_start = [&](const protocol::StartHost& start) {
            const auto now = std::chrono::steady_clock::now();
            {
              const std::lock_guard lock(mutex);
              took.push_back(std::chrono::duration<double, std::milli>(now - asked[start.spec().actor_id()]).count());
            }
            ++done;
            here.load()->end(start);
          }});
  here = node.get();
  node->heartbeat(false);
  std::this_thread::sleep_for(200ms);
  auto beat = std::chrono::steady_clock::now();
  for (size_t at = 0; at < count; ++at) {
    const ActorId actor = driver.make_actor();
    {
      const std::lock_guard lock(mutex);
      asked[raw(actor)] = std::chrono::steady_clock::now();
    }
    driver.spawn(actor);
    std::this_thread::sleep_for(std::chrono::microseconds(3'000 + 137 * (at % 17)));
    if (std::chrono::steady_clock::now() - beat > 400ms) {
      beat = std::chrono::steady_clock::now();
      node->heartbeat(false);
    }
  }
  wait_for("all decisions", 10s, [&] { return done == count; });
  node.reset();
  return took;
}

// Histogram of the head's decision times: upper bound of each bucket in seconds to cumulative count.
std::map<double, double> decision_times(WebClient& web) {
  std::map<double, double> buckets;
  std::istringstream lines(web.get("/metrics"));
  constexpr std::string_view kBucket = "volador_head_decision_seconds_bucket{le=\"";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kBucket)) continue;
    buckets[std::strtod(line.c_str() + kBucket.size(), nullptr)] =
        std::stod(line.substr(line.rfind(' ')));  // strtod parses "+Inf".
  }
  return buckets;
}

// Milliseconds, interpolated within a bucket.
double p99_between(const std::map<double, double>& before, const std::map<double, double>& after) {
  const double all = after.rbegin()->second - before.rbegin()->second;
  double begin = 0, below = 0;
  for (const auto& [end, count] : after) {
    const double here = count - before.at(end);
    if (here >= 0.99 * all) return 1e3 * (begin + (end - begin) * (0.99 * all - below) / std::max(1.0, here - below));
    begin = end;
    below = here;
  }
  return 1e3 * begin;
}

Measured live_scheduler_p99() {
  constexpr size_t kClients = 50, kDecisions = 2'000;
  const StartedCluster cluster;
  const std::string token = cluster.operator_token(), join = cluster.join_token(), address = cluster.address();
  MadeUpDriver driver(address, token);
  WebClient web(cluster.dashboard_port(), token);
  driver.show_trials("digits", kMadeUpTrials);
  wait_for_trials(web, kMadeUpTrials);
  Measured measured;
  int nodes = 0;
  double round_trip = 0;
  const auto run = [&] {
    const auto before = decision_times(web);
    auto took = decisions(driver, address, join, fmt::format("node{}", ++nodes), kDecisions);
    round_trip = p99(took);
    return p99_between(before, decision_times(web));
  };
  run();
  measured.baselines.push_back(run());
  const double alone = round_trip;
  Readers readers(kClients, cluster.dashboard_port(), token, WebLine::Tls::kNo);
  {
    const Reports reports(driver);
    std::this_thread::sleep_for(2s);
    for (int at = 0; at < 3; ++at) measured.values.push_back(run());
  }
  auto took = readers.take();
  measured.note = fmt::format(
      "the same without clients and reports; aim 2 ms; 50 clients, 10,000 trials, 1,000 reports/s; rows at clients p99 "
      "{:.0f} ms; there and back with the journal {:.1f} ms, without clients {:.1f} ms",
      p99(took), round_trip, alone);
  return measured;
}

// Bytes queued in the kernel for sending from a loopback port.
double waiting_bytes(int port) {
  std::ifstream file("/proc/net/tcp");
  std::string line;
  std::getline(file, line);
  double sum = 0;
  const std::string local = fmt::format("0100007F:{:04X}", port);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, from, to, state, queues;
    fields >> number >> from >> to >> state >> queues;
    if (from == local) sum += static_cast<double>(std::stoul(queues.substr(0, queues.find(':')), nullptr, 16));
  }
  return sum;
}

// Cost of a client that reads 1 kB/s at 1,000 reports per second, in the head and in the kernel.
Measured live_slow_client() {
  constexpr size_t kClients = 10;
  const StartedCluster cluster;
  const std::string token = cluster.operator_token();
  const int port = cluster.dashboard_port();
  MadeUpDriver driver(cluster.address(), token);
  WebClient web(port, token);
  driver.show_trials("digits", kMadeUpTrials);
  wait_for_trials(web, kMadeUpTrials);
  const Reports reports(driver);
  std::this_thread::sleep_for(15s);  // Every trial has its new metric and curve by then.
  const auto cost = [&] {
    return (static_cast<double>(memory_of_process(cluster.head_pid())) + waiting_bytes(port)) / (1 << 20);
  };
  const double before = cost();
  std::vector<std::unique_ptr<WebSocket>> clients;
  for (size_t at = 0; at < kClients; ++at) {
    clients.push_back(std::make_unique<WebSocket>(port, token, WebLine::Tls::kNo, 4096));
    clients.back()->send(R"({"op":"sub","id":1,"topic":"trials","filter":{"experiment":"digits"}})");
    clients.back()->send(R"({"op":"sub","id":2,"topic":"curves","filter":{"experiment":"digits"}})");
    clients.back()->line().never_block();
  }
  Measured measured;
  double in_kernel = 0;
  for (int tenth = 0; tenth < 200; ++tenth) {
    std::this_thread::sleep_for(100ms);
    std::array<char, 102> piece;
    for (const auto& client : clients) client->line().read(piece.data(), piece.size());
    if (tenth % 50 != 49) continue;
    measured.values.push_back((cost() - before) / kClients);
    in_kernel = waiting_bytes(port) / kClients / (1 << 20);
  }
  measured.note = fmt::format(
      "aim 2 MB; of one of 10 that read 1 kB/s for 20 s, trials and curves; {:.2f} of it in the kernel", in_kernel);
  return measured;
}

// ---- volador demo ----

Measured demo_first_result() {
  namespace fs = std::filesystem;
  Measured measured{.note = "aim 5 s; from its start to the first trial with a result in the API"};
  for (int run = 0; run < 3; ++run) {
    const TemporaryHome home;
    const std::string binary = program_beside("volador");
    const auto begin = std::chrono::steady_clock::now();
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("TMPDIR", home.path().c_str(), 1);
      if (freopen("/dev/null", "w", stdout) == nullptr || freopen("/dev/null", "w", stderr) == nullptr) _exit(126);
      execl(binary.c_str(), binary.c_str(), "demo", static_cast<char*>(nullptr));
      _exit(127);
    }
    std::unique_ptr<WebClient> web;
    wait_for("a result of the demo", 30s, [&] {
      if (!web) {
        for (const auto& entry : fs::directory_iterator(home.path())) {
          std::ifstream access(entry.path() / "clusters/demo/access.json"),
              served(entry.path() / "clusters/demo/head/dashboard.json");
          const auto who = nlohmann::json::parse(access, nullptr, false),
                     where = nlohmann::json::parse(served, nullptr, false);
          if (who.is_object() && where.is_object())
            web = std::make_unique<WebClient>(where.at("port"), who.at("token"));
        }
      }
      return web && nlohmann::json::parse(web->get("/api/v1/trials?filter=step%3E0&page_size=1")).at("total") > 0;
    });
    measured.values.push_back(seconds_since(begin));
    web.reset();
    kill(pid, SIGINT);
    waitpid(pid, nullptr, 0);
  }
  return measured;
}

}  // namespace

std::vector<Figure> dashboard_figures() {
  return {{"api_list_10k_trials", "ms", false, api_list_10k_trials},
          {"ws_delta_latency", "ms", false, ws_delta_latency},
          {"live_scheduler_p99", "ms", false, live_scheduler_p99},
          {"live_slow_client", "MB", false, live_slow_client},
          {"demo_first_result", "s", false, demo_first_result}};
}

}  // namespace volador::bench
