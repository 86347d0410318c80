// Memory of a head after an hour of a busy cluster: 200 nodes, 10,000 trials as actors, their reports and metrics. The
// members are simulated, their streams and the head's process are real, and its clock is advanced second by second.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "tests/bench/figure.h"
#include "tests/bench/made_up_members.h"
#include "tests/bench/started_cluster.h"
#include "tests/bench/web_client.h"

namespace volador::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kHourNodes = 200;
constexpr int kSeconds = 3'600;
constexpr uint64_t kTrialSeconds = 1'100;  // 3,200 slots: 10,000 trials fill the hour.
constexpr int kReportEvery = 50;           // Seconds between the reports of a trial: 22 reports each.
constexpr auto kRealSecond = 30ms;  // Real duration of a simulated second: longer than the interval at which the head
                                    // publishes changes.

class MovedHead {
 public:
  MovedHead() {
    const std::string file = home_.path() / "time";
    const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(int64_t)) != 0)
      throw std::runtime_error("no file for the time in " + home_.path().string());
    ahead_ =
        static_cast<std::atomic<int64_t>*>(mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    const std::string program = program_beside("bench_head");
    const std::string& home = home_.path().native();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execl(program.c_str(), program.c_str(), home.c_str(), file.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    std::string line;
    for (char byte = 0; read(out[0], &byte, 1) == 1 && byte != '\n';) line += byte;
    close(out[0]);
    told_ = nlohmann::json::parse(line);
  }
  ~MovedHead() {
    close(in_);
    waitpid(pid_, nullptr, 0);
    munmap(ahead_, sizeof(int64_t));
  }
  MovedHead(const MovedHead&) = delete;
  MovedHead& operator=(const MovedHead&) = delete;

  pid_t pid() const { return pid_; }
  std::string told(const char* what) const { return told_.at(what); }
  int dashboard_port() const {
    const std::string url = told("dashboard");
    return std::stoi(url.substr(url.rfind(':') + 1));
  }
  void move(std::chrono::nanoseconds by) { *ahead_ += by.count(); }

 private:
  TemporaryHome home_;
  std::atomic<int64_t>* ahead_ = nullptr;
  pid_t pid_ = -1;
  int in_ = -1;
  nlohmann::json told_;
};

class BusyHour {
 public:
  explicit BusyHour(int gpus) : driver_(head_.told("address"), head_.told("operator")) {
    for (int number = 0; number < kHourNodes; ++number) {
      nodes_.push_back(
          std::make_unique<MadeUpNode>(head_.told("address"), head_.told("join"),
                                       MadeUpNode::Options{.name = fmt::format("node{}", number), .gpus = gpus}));
    }
    for (size_t number = 0; number < kMadeUpTrials; ++number) {
      actors_.push_back(driver_.make_actor());
      driver_.spawn(actors_.back());
    }
    driver_.show_trials("digits", kMadeUpTrials);
  }

  void pass() {
    for (int second = 0; second < kSeconds; ++second) {
      const auto next = std::chrono::steady_clock::now() + kRealSecond;
      head_.move(1s);
      for (const auto& node : nodes_) node->heartbeat(second % 10 == 0);
      for (const auto& node : nodes_) node->end_actors(kTrialSeconds);
      report(second);
      for (const auto& node : nodes_) {
        while (node->heartbeats_heard() < node->heartbeats_sent()) std::this_thread::sleep_for(1ms);
      }
      std::this_thread::sleep_until(next);
    }
  }

  Measured measured() {
    std::this_thread::sleep_for(1s);
    WebClient web(head_.dashboard_port(), head_.told("operator"));
    const auto steps = nlohmann::json::parse(web.get("/api/v1/series?node=node7&name=cpu_cores_used&points=10000"))
                           .at("series")
                           .at(0)
                           .at("x")
                           .size();
    const auto trials = nlohmann::json::parse(web.get("/api/v1/trials?page_size=1")).at("total").get<size_t>();
    size_t ended = 0;
    for (const auto& node : nodes_) ended += node->ended();
    return {.values = {pss_mb(head_.pid())},
            .note = fmt::format("aim 150 MB; {} trials, {} of their actors have ended; a series of a node has {} steps",
                                trials, ended, steps)};
  }

 private:
  // Reports a result for one in kReportEvery running trials.
  void report(int second) {
    const size_t begun = std::min(
        kMadeUpTrials, static_cast<size_t>(16 * kHourNodes) * (1 + static_cast<size_t>(second) / kTrialSeconds));
    const size_t ended = begun >= 16 * kHourNodes ? begun - 16 * kHourNodes : 0;
    protocol::ClientMessage message;
    auto& update = running_experiment(message, "digits", kMadeUpTrials);
    if (second % static_cast<int>(kTrialSeconds) == 0) {
      for (size_t number = ended; number < begun; ++number) running_row(number, 0, update);
    }
    for (size_t number = ended + static_cast<size_t>(second % kReportEvery); number < begun; number += kReportEvery) {
      auto& row = running_row(number, 1 + second / kReportEvery, update);
      auto& point = *row.add_points();
      point.set_step(row.step());
      point.set_time_s(second);
      *point.mutable_metrics() = row.metrics();
    }
    driver_.send(std::move(message));
  }

  protocol::TrialRow& running_row(size_t number, int step, protocol::ExperimentUpdate& update) {
    auto& row = *update.add_trials() = trial_row(number, step);
    row.set_actor_id(raw(actors_[number]));
    row.set_status("running");
    return row;
  }

  MovedHead head_;
  MadeUpDriver driver_;
  std::vector<std::unique_ptr<MadeUpNode>> nodes_;
  std::vector<ActorId> actors_;
};

Measured head_memory() {
  BusyHour hour(0);
  hour.pass();
  return hour.measured();
}

Measured head_memory_gpus() {
  BusyHour hour(8);
  hour.pass();
  return hour.measured();
}

}  // namespace

std::vector<Figure> head_memory_figures() {
  return {{"head_memory", "MB", false, head_memory}, {"head_memory_gpus", "MB", false, head_memory_gpus}};
}

}  // namespace volador::bench
