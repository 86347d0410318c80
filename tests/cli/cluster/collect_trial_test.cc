// Trials of kind Trial: `volador experiment run-trial` as the parent of real programs, against a head of the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/katib/collection.h"
#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "tests/built_program.h"
#include "tests/cli/cluster/run_volador.h"
#include "tests/cli/fake_head.h"
#include "tune/results/tensorboard_events.h"

namespace volador::testing {
namespace {

using experiments::katib::Collection;
using experiments::katib::CollectorKind;
using experiments::katib::Comparison;
using experiments::katib::MetricStrategy;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CollectTrial : public ::testing::Test {
 protected:
  CollectTrial() {
    collection_.trial = "random-5s59vfwc";
    collection_.objective.maximize = true;
    collection_.objective.metric = "acc";
    collection_.objective.additional_metrics = {"loss"};
    collection_.objective.strategies = {{"acc", MetricStrategy::kMax}, {"loss", MetricStrategy::kLatest}};
    const auto told = [this](std::string text) {
      const std::scoped_lock lock(mutex_);
      told_.push_back(std::move(text));
    };
    head_.on<v1::ReportMetricsRequest, v1::ReportMetricsReply>(
        "Experiments/ReportMetrics",
        [this, told](const v1::ReportMetricsRequest& request) -> Result<v1::ReportMetricsReply> {
          EXPECT_EQ(request.trial(), 7);
          EXPECT_EQ(request.run(), 2);
          told(fmt(request));
          return v1::ReportMetricsReply();
        });
    head_.on<v1::CompleteTrialOperationRequest, v1::CompleteTrialOperationReply>(
        "Experiments/CompleteTrialOperation",
        [told](const v1::CompleteTrialOperationRequest& request) -> Result<v1::CompleteTrialOperationReply> {
          std::ostringstream text;
          text << "complete " << request.length() << " " << request.metric();
          told(text.str());
          return v1::CompleteTrialOperationReply();
        });
    head_.on<v1::ReportTrialExitRequest, v1::ReportTrialExitReply>(
        "Experiments/ReportTrialExit",
        [told](const v1::ReportTrialExitRequest& request) -> Result<v1::ReportTrialExitReply> {
          told("exit " + request.reason());
          return v1::ReportTrialExitReply();
        });
  }

  static std::string fmt(const v1::ReportMetricsRequest& request) {
    return request.group() + " " + std::to_string(request.batches()) + " " + request.metrics();
  }
  void collect(CollectorKind kind, const std::string& path = "") {
    collection_.collector.kind = kind;
    collection_.collector.path = path;
  }
  void answer(const std::string& script) {
    head_.on<v1::StartTrialRunRequest, v1::StartTrialRunReply>(
        "Experiments/StartTrialRun",
        [=, this](const v1::StartTrialRunRequest& request) -> Result<v1::StartTrialRunReply> {
          v1::StartTrialRunReply reply;
          reply.mutable_trial()->set_id(request.trial());
          reply.mutable_trial()->set_run(request.run());
          for (const std::string& word : {std::string("bash"), std::string("-c"), script}) reply.add_command(word);
          reply.set_config(R"({"entrypoint":["bash"]})");
          reply.set_collection(experiments::katib::to_json(collection_));
          reply.set_storage(storage_);
          return reply;
        });
  }
  std::map<std::string, std::string> environment(const std::string& rank = "0") const {
    return {{"VOLADOR_ADDRESS", head_.address()},
            {"VOLADOR_TOKEN", head_.token()},
            {"VOLADOR_TRIAL", "7"},
            {"VOLADOR_TRIAL_RUN", "2"},
            {"VOLADOR_JOB_ID", "job-9"},
            {"VOLADOR_JOB_DIR", (job_folder_ / "job").string()},
            {"VOLADOR_JOB_RANK", rank},
            {"VOLADOR_JOB_NODE", "first"},
            {"VOLADOR_JOB_NODES", rank == "0" ? "1" : "2"},
            {"VOLADOR_JOB_HOSTS", rank == "0" ? "127.0.0.1" : "10.0.0.1,10.0.0.2"}};
  }
  Finished run(const std::string& script, const std::string& rank = "0") {
    answer(script);
    return user_.run({"experiment", "run-trial"}, environment(rank));
  }
  static std::string result(const std::string& acc, const std::string& loss) {
    const auto metric = [](const std::string& name, const std::string& values) {
      std::istringstream words(values);
      std::string min, max, latest;
      words >> min >> max >> latest;
      return R"({"name":")" + name + R"(","min":")" + min + R"(","max":")" + max + R"(","latest":")" + latest + "\"}";
    };
    return "\"observation\":[" + metric("acc", acc) + "," + metric("loss", loss) + "]}";
  }
  // Waits until a file exists, and returns its text.
  static std::string wait_for(const std::filesystem::path& path) {
    for (;;) {
      std::ifstream file(path);
      std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      if (!text.empty() && text.back() == '\n') return text;
      ::usleep(2000);
    }
  }

  cli::FakeHead head_;
  VoladorUser user_;
  TemporaryDirectory folder_;
  std::filesystem::path job_folder_ = folder_.path();
  Collection collection_;
  std::string storage_ = "null";
  std::mutex mutex_;
  std::vector<std::string> told_;
};

constexpr const char* kUnseen = "unavailable unavailable unavailable";

TEST_F(CollectTrial, CollectsStdoutAndStderrAndPassesThemOn) {
  const Finished run = this->run(
      "echo $KATIB_TRIAL_NAME; printf 'acc=0.5 loss=2\\nno\\0metric\\n'; echo 'acc=0.75' >&2; printf 'loss=nan'; ps -o "
      "pgid= "
      "$$ | xargs test $$ -eq");
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_EQ(run.out, std::string("random-5s59vfwc\nacc=0.5 loss=2\nno") + '\0' + "metric\nloss=nan");
  EXPECT_EQ(run.error, "acc=0.75\n");
  ASSERT_EQ(told_.size(), 5U);
  // Lines of two pipes that come at about the same time have no order.
  const auto validation = [&](const char* acc) { return "validation 1 {\"acc\":0.75," + result(acc, "2 2 nan"); };
  EXPECT_THAT(std::vector<std::string>(told_.begin() + 3, told_.end()),
              ElementsAre(AnyOf(validation("0.5 0.75 0.75"), validation("0.5 0.75 0.5")), "complete 1 0.75"));
  std::sort(told_.begin(), told_.begin() + 3, [](auto& a, auto& b) { return a.substr(14) < b.substr(14); });
  EXPECT_THAT(told_[0], HasSubstr(R"({"acc":0.5,"loss":2.0})"));
  EXPECT_THAT(told_[1], HasSubstr(R"({"acc":0.75})"));
  EXPECT_THAT(told_[2], HasSubstr(R"({"loss":"NaN"})"));
}

TEST_F(CollectTrial, ReportsATrialWithoutItsObjective) {
  const Finished run = this->run("echo loss=0.5; echo accuracy=1");
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_THAT(run.error, HasSubstr("trial random-5s59vfwc has not reported acc, its objective"));
  EXPECT_THAT(told_, ElementsAre("observation 1 {\"loss\":0.5}", "observation 2 {" + result(kUnseen, "0.5 0.5 0.5"),
                                 "exit metrics_unavailable"));
}

TEST_F(CollectTrial, AFailedTrialHasItsExitCodeAndNoResult) {
  EXPECT_EQ(run("echo acc=1; exit 37").code, 37);
  EXPECT_THAT(told_, ElementsAre("observation 1 {\"acc\":1.0}"));
  EXPECT_EQ(run("kill -SEGV $$").code, 128 + SIGSEGV);
  collection_.collector.formats = {"("};
  const Finished broken = run("echo never");
  EXPECT_EQ(broken.code, 1);
  EXPECT_EQ(broken.out, "");
  EXPECT_THAT(broken.error, HasSubstr("metricsFormat: \"(\" is no regular expression"));
}

TEST_F(CollectTrial, OtherRanksAreTheProgram) {
  const Finished run = this->run("echo $KATIB_TRIAL_NAME acc=1; cat /proc/$PPID/comm", "1");
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_THAT(run.out, HasSubstr("random-5s59vfwc acc=1\n"));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(CollectTrial, FollowsAFileThatIsRotatedAndCut) {
  const auto path = folder_.path() / "metrics" / "metrics.log";
  collect(CollectorKind::kFile, path.string());
  const std::string log = path.string();
  // The reports of each step are seen before the next.
  const Finished run = this->run(
      "echo acc=9; f=" + log +
      "; echo acc=1 > $f; mv $f $f.1; echo acc=2 >> $f.1; printf 'acc=3\\nloss=0.' > $f; "
      "sleep 0.6; printf 5 >> $f; sleep 0.6; printf 'acc=4\\n' > $f.2; mv $f.2 $f; sleep 0.6; printf 'acc=0' > $f");
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_EQ(run.out, "acc=9\n");
  ASSERT_FALSE(told_.empty());
  EXPECT_EQ(told_.back(), "complete 1 4");
  EXPECT_EQ(told_[told_.size() - 2], "validation 1 {\"acc\":4.0," + result("0 4 0", "0.5 0.5 0.5"));
}

TEST_F(CollectTrial, HasTheDefaultFolderForItself) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make it";
  collect(CollectorKind::kFile, "/var/log/katib/metrics.log");
  const Finished run = this->run("ls /var/log/katib; echo acc=0.5 > /var/log/katib/metrics.log");
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_EQ(run.out, "");
  if (run.error.find("share the folder") != std::string::npos) GTEST_SKIP() << run.error;
  EXPECT_EQ(told_.back(), "complete 1 0.5");
  EXPECT_FALSE(std::filesystem::exists("/var/log/katib/metrics.log"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "job/trial/metrics/metrics.log"));
}

TEST_F(CollectTrial, ReadsAFileOfJson) {
  const auto path = folder_.path() / "metrics.json";
  std::ofstream(path) << "{\"acc\": \"99\"}\n";  // From an earlier trial.
  collect(CollectorKind::kFile, path.string());
  collection_.collector.is_json = true;
  const Finished run = this->run("cat >> " + path.string() +
                                 R"( <<'EOF'
{"acc": "0.5", "timestamp": 1638422847.5}
{"acc": 0.75, "loss": 1, "timestamp": 1638422847.25}
{"acc": "0.2)"
                                 "\nEOF\n");
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_THAT(run.error, HasSubstr("metrics.json: 1 lines are no JSON objects and are left out"));
  EXPECT_THAT(told_, ElementsAre("observation 1 {\"acc\":0.5}", "observation 2 {\"acc\":0.75,\"loss\":1.0}",
                                 "validation 1 {\"acc\":0.75," + result("0.5 0.75 0.5", "1 1 1"), "complete 1 0.75"));
}

TEST_F(CollectTrial, ReadsEventFilesInFolders) {
  const auto folder = folder_.path() / "events";
  collect(CollectorKind::kTensorFlowEvent, folder.string());
  collection_.objective.metric = "validation/acc";
  collection_.objective.additional_metrics = {"train/acc"};
  std::string train, validation;
  const WallTime now{std::chrono::milliseconds(1'700'000'000'250)};
  for (int step = 1; step <= 2; ++step) {
    tune::append_event_scalars(train, now, step, {{"acc", 0.5 * step}});
    tune::append_event_scalars(validation, now, step, {{"acc", 0.25 * step}});
  }
  std::ofstream(folder_.path() / "train") << train;
  std::ofstream(folder_.path() / "validation") << validation << "broken after the end of a record";
  const std::string from = folder_.path().string();
  const Finished run = this->run("cd " + from +
                                 "; for i in train validation; do mkdir -p events/$i; cp $i "
                                 "events/$i/events.out.tfevents.1; done");
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_THAT(run.error, HasSubstr("the rest of an event file is not read"));
  EXPECT_EQ(told_.size(), 6U);
  EXPECT_EQ(told_.back(), "complete 1 0.5");
}

TEST_F(CollectTrial, ScrapesPrometheus) {
  const auto script = folder_.path() / "serve.py";
  const auto done = folder_.path() / "scraped";
  std::ofstream(script) << R"(
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    count = 0
    def do_GET(self):
        Handler.count += 1
        text = f"# TYPE acc gauge\nacc{{x=\"y\"}} {Handler.count / 4}\n" if self.path == "/values" else ""
        self.send_response(200); self.end_headers(); self.wfile.write(text.encode())
    def log_message(self, *words): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
while Handler.count < 2: server.handle_request()
)";
  // A port that was free a moment ago.
  const Finished port = [&] {
    std::ofstream(folder_.path() / "port.py")
        << "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])";
    answer("python3 " + (folder_.path() / "port.py").string());
    return user_.run({"experiment", "run-trial"}, environment());
  }();
  told_.clear();
  collect(CollectorKind::kPrometheus, "/values");
  collection_.collector.port = std::stoi(port.out);
  const Finished run = this->run("python3 " + script.string() + " " + std::to_string(collection_.collector.port));
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_THAT(told_, ElementsAre("observation 1 {\"acc\":0.25}", "observation 2 {\"acc\":0.5}",
                                 "validation 1 {\"acc\":0.5," + result("0.25 0.5 0.5", kUnseen), "complete 1 0.5"));
}

TEST_F(CollectTrial, AsksTheHeadForWhatWasPushed) {
  int asked = 0;
  head_.on<api::v1::beta1::GetObservationLogRequest, api::v1::beta1::GetObservationLogReply>(
      "DBManager/GetObservationLog",
      [&](const api::v1::beta1::GetObservationLogRequest& request) -> Result<api::v1::beta1::GetObservationLogReply> {
        EXPECT_EQ(request.trial_name(), "random-5s59vfwc");
        if (++asked >= 4) return make_error(ErrorCode::kNotFound, "no such trial");
        api::v1::beta1::GetObservationLogReply reply;
        for (const char* value : {"0.5", "0.25"}) {
          auto& log = *reply.mutable_observation_log()->add_metric_logs();
          log.set_time_stamp("2024-03-04T17:55:08Z");
          log.mutable_metric()->set_name("acc");
          log.mutable_metric()->set_value(value);
        }
        return reply;
      });
  const std::string beside = (folder_.path() / "beside").string();
  collection_.collector.command = {"bash", "-c", "echo $KATIB_TRIAL_NAME > " + beside};
  for (const CollectorKind kind : {CollectorKind::kPush, CollectorKind::kNone, CollectorKind::kCustom}) {
    told_.clear();
    collect(kind);
    const Finished run = this->run("echo acc=9");
    EXPECT_EQ(run.code, 0) << run.error;
    EXPECT_EQ(run.out, "acc=9\n");
    EXPECT_THAT(told_, ElementsAre("validation 1 {\"acc\":0.5," + result("0.25 0.5 0.25", kUnseen), "complete 1 0.5"));
  }
  EXPECT_EQ(wait_for(beside), "random-5s59vfwc\n");
  told_.clear();
  EXPECT_EQ(run("true").code, 0);
  EXPECT_THAT(told_, ElementsAre("observation 1 {" + result(kUnseen, kUnseen), "exit metrics_unavailable"));
  told_.clear();
  collect(CollectorKind::kNone);
  EXPECT_EQ(run("true").code, 0);
  EXPECT_THAT(told_, ElementsAre("complete 1 nan")) << "without a collector a trial needs no result";
}

TEST_F(CollectTrial, StopsEarlyByWhatWasPushed) {
  collection_.rules = {{"acc", 0.8, Comparison::kLess, 3}};
  std::vector<int64_t> from;
  head_.on<v1::GetMetricsRequest, v1::GetMetricsReply>(
      "Experiments/GetMetrics", [&](const v1::GetMetricsRequest& request) -> Result<v1::GetMetricsReply> {
        EXPECT_THAT(request.trials(), ElementsAre(7));
        EXPECT_EQ(request.group(), "observation");
        from.push_back(request.from_batch());
        v1::GetMetricsReply reply;
        // Two reports at the first time, the third one later.
        for (int64_t number = request.from_batch(); number <= (from.size() < 2 ? 2 : 3); ++number) {
          v1::TrialMetricSeries& one = reply.series_size() == 0 ? *reply.add_series() : *reply.mutable_series(0);
          one.set_metric("acc");
          one.add_batches(number);
          one.add_values(0.5);
          one.add_times_ms(1);
        }
        return reply;
      });
  head_.on<api::v1::beta1::GetObservationLogRequest, api::v1::beta1::GetObservationLogReply>(
      "DBManager/GetObservationLog",
      [&](const api::v1::beta1::GetObservationLogRequest&) -> Result<api::v1::beta1::GetObservationLogReply> {
        api::v1::beta1::GetObservationLogReply reply;
        auto& log = *reply.mutable_observation_log()->add_metric_logs();
        log.mutable_metric()->set_name("acc");
        log.mutable_metric()->set_value("0.5");
        return reply;
      });
  for (const CollectorKind kind : {CollectorKind::kPush, CollectorKind::kCustom}) {
    told_.clear();
    from.clear();
    collection_.collector.command = {"true"};
    collect(kind);
    const Finished run = this->run("sleep 1000");
    EXPECT_EQ(run.code, 0) << run.error;
    EXPECT_THAT(from, ElementsAre(1, 3));
    EXPECT_THAT(told_,
                ElementsAre("validation 1 {\"acc\":0.5," + result("0.5 0.5 0.5", kUnseen), "exit early_stopped"));
  }
}

TEST_F(CollectTrial, BeginsWithTheCheckpointsOfItsParentAndKeepsItsOwn) {
  const std::filesystem::path storage = folder_.path() / "storage";
  storage_ = R"({"type":"directory","container_path":")" + storage.string() + "\"}";
  job_folder_ = user_.home();  // The working directory is one that the job has made.
  collection_.checkpoints = "checkpoints/../kept";
  std::vector<std::string> made;
  head_.on<v1::ReportCheckpointRequest, v1::ReportCheckpointReply>(
      "Experiments/ReportCheckpoint",
      [&](const v1::ReportCheckpointRequest& request) -> Result<v1::ReportCheckpointReply> {
        EXPECT_EQ(request.trial(), 7);
        EXPECT_EQ(request.checkpoint().resources().size(), made.size() + 1);
        made.push_back(request.checkpoint().id());
        return v1::ReportCheckpointReply();
      });
  head_.on<v1::GetTrialInfoRequest, v1::TrialInfo>(
      "Experiments/GetTrialInfo", [&](const v1::GetTrialInfoRequest& request) -> Result<v1::TrialInfo> {
        EXPECT_EQ(request.id(), 6);
        v1::TrialInfo parent;
        parent.set_latest_checkpoint(made.at(0));
        return parent;
      });
  const Finished parent = this->run("ls kept; echo 1 > kept/first; echo acc=1");
  EXPECT_EQ(parent.code, 0) << parent.error;
  EXPECT_EQ(parent.out, "acc=1\n");
  ASSERT_EQ(made.size(), 1U);
  collection_.parent = 6;
  const Finished child = this->run("ls kept; echo 2 > kept/second; echo acc=1");
  EXPECT_EQ(child.out, "first\nacc=1\n") << child.error;
  EXPECT_EQ(made.size(), 2U);
  // Another machine, without this storage.
  std::filesystem::remove_all(storage / made.at(0));
  const Finished other = this->run("echo never");
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(other.out, "");
  EXPECT_THAT(other.error, HasSubstr("experiments.checkpoint_storage"));
  for (const char* wrong : {"/", ".", "..", "a/../.."}) {
    collection_.checkpoints = wrong;
    EXPECT_THAT(this->run("echo never").error, HasSubstr("suggestion_trial_dir")) << wrong;
  }
}

TEST_F(CollectTrial, HasCheckpointsForItselfInAFolderOfTheUser) {
  collection_.checkpoints = "kept";
  std::filesystem::create_directories(user_.home() / "kept");
  std::ofstream(user_.home() / "kept" / "of_the_user") << "text";
  storage_ = R"({"type":"directory","container_path":")" + (folder_.path() / "storage").string() + "\"}";
  head_.on<v1::ReportCheckpointRequest, v1::ReportCheckpointReply>(
      "Experiments/ReportCheckpoint",
      [&](const v1::ReportCheckpointRequest& request) -> Result<v1::ReportCheckpointReply> {
        EXPECT_THAT(request.checkpoint().resources(), ElementsAre(::testing::Pair("first", 2)));
        return v1::ReportCheckpointReply();
      });
  const Finished run = this->run("ls kept; echo 1 > kept/first; echo acc=1");
  if (::geteuid() == 0) {
    EXPECT_EQ(run.out, "acc=1\n") << run.error;
  } else {
    EXPECT_THAT(run.error, HasSubstr("right to mount"));
  }
  EXPECT_TRUE(std::filesystem::exists(user_.home() / "kept" / "of_the_user"));
  EXPECT_FALSE(std::filesystem::exists(user_.home() / "kept" / "first"));
}

TEST_F(CollectTrial, StopsEarlyWithAllProcesses) {
  collection_.rules = {{"acc", 0.8, Comparison::kLess, 3}};
  const std::string pids = (folder_.path() / "pids").string();
  const Finished run =
      this->run("sleep 1000 & setsid sleep 1000 & trap 'echo ended; exit 3' TERM; echo $(jobs -p) $$ > " + pids +
                "; for i in 1 2 3; do echo acc=0.$i; done; wait; wait");
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_EQ(run.out, "acc=0.1\nacc=0.2\nacc=0.3\nended\n");
  EXPECT_EQ(run.error, "trial random-5s59vfwc is stopped early\n");
  EXPECT_THAT(std::vector<std::string>(told_.begin() + 3, told_.end()),
              ElementsAre("validation 1 {\"acc\":0.3," + result("0.1 0.3 0.3", kUnseen), "exit early_stopped"));
  std::istringstream words(wait_for(pids));
  int count = 0;
  for (pid_t pid = 0; words >> pid; ++count) EXPECT_FALSE(is_alive(pid)) << pid;
  EXPECT_EQ(count, 3);
}

TEST_F(CollectTrial, LeavesNoProcessBehind) {
  const std::string pids = (folder_.path() / "pids").string();
  const Finished run =
      this->run("sleep 1000 & setsid bash -c 'sleep 1000 & echo $! $$ >> " + pids +
                "; wait' & echo acc=1; until [ -s " + pids + " ]; do sleep 0.01; done; echo $(jobs -p) >> " + pids);
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_EQ(told_.back(), "complete 1 1");
  std::istringstream words(wait_for(pids));
  int count = 0;
  for (pid_t pid = 0; words >> pid; ++count) EXPECT_FALSE(is_alive(pid)) << pid;
  EXPECT_EQ(count, 4);
}

TEST_F(CollectTrial, PassesSignalsOn) {
  const auto started = folder_.path() / "started";
  for (const bool ends : {true, false}) {
    std::filesystem::remove(started);
    told_.clear();
    answer(std::string("trap 'echo usr >> $F' USR1; trap '") + (ends ? "exit 0" : "trap - TERM; kill $$") +
           "' TERM; echo acc=1; echo $$ > $F; while :; do sleep 0.02; done");
    auto variables = environment();
    variables["F"] = started.string();
    // A shell between, since VoladorUser discards the exit codes of what it starts.
    const std::string program = built_program("volador");
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
      ::setenv("VOLADOR_HOME", user_.home().c_str(), 1);
      ::execl(program.c_str(), program.c_str(), "experiment", "run-trial", nullptr);
      ::_exit(127);
    }
    const pid_t child = std::stoi(wait_for(started));
    ::kill(pid, SIGUSR1);
    while (wait_for(started).find("usr") == std::string::npos) ::usleep(2000);
    ::kill(pid, SIGTERM);
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(WIFEXITED(status), ends);
    EXPECT_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, ends ? 0 : SIGTERM);
    EXPECT_FALSE(is_alive(child));
    EXPECT_THAT(told_, ElementsAre("observation 1 {\"acc\":1.0}")) << "a stopped trial has no result";
  }
}

TEST_F(CollectTrial, PassesManyLinesOnInTheirOrder) {
  // Written one by one, each of which wakes the parent.
  const Finished run =
      this->run("python3 -uc \"\nfor i in range(20000):\n    print(f'step {i} of the training')\nprint('acc=1')\"");
  EXPECT_EQ(run.code, 0) << run.error;
  std::string expected;
  for (int i = 0; i < 20'000; ++i) expected += "step " + std::to_string(i) + " of the training\n";
  EXPECT_EQ(run.out, expected + "acc=1\n");
  EXPECT_EQ(told_.back(), "complete 1 1");
}

TEST_F(CollectTrial, ARunThatIsOverEndsWithoutAResult) {
  head_.on<v1::ReportMetricsRequest, v1::ReportMetricsReply>(
      "Experiments/ReportMetrics", [](const v1::ReportMetricsRequest&) -> Result<v1::ReportMetricsReply> {
        return make_error(ErrorCode::kCancelled, "run 2 of trial 7 is over");
      });
  const Finished run = this->run("echo acc=1");
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.error, HasSubstr("the head refuses the reports of metrics of trial 7: run 2 of trial 7 is over"));
  EXPECT_THAT(run.error, HasSubstr("the result of run 2 of trial 7 does not count"));
}

}  // namespace
}  // namespace volador::testing
