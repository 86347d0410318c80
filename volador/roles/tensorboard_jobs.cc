#include "volador/roles/tensorboard_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "runtime/operations/registry.h"

namespace volador {
namespace {

constexpr std::string_view kBoardJob = "tensorboard-";  // Begins JobSpec::trial; the id of its token follows.
constexpr const char* kExperimentsVariable = "VOLADOR_TENSORBOARD_EXPERIMENTS";
constexpr const char* kTrialsVariable = "VOLADOR_TENSORBOARD_TRIALS";
constexpr const char* kPortVariable = "VOLADOR_TENSORBOARD_PORT";
constexpr const char* kIdleVariable = "VOLADOR_TENSORBOARD_IDLE_S";
constexpr int kShownMost = 1000;  // Experiments and trials of one.
constexpr int64_t kIdleDefaultS = 600, kIdleMostS = 7 * 24 * 3600;
constexpr double kCpusDefault = 0.1;
// Below the ports that Linux gives to clients, so that the port is rarely taken on the machine that the queue chooses.
constexpr uint64_t kFirstPort = 20'000, kPorts = 12'000;
constexpr int32_t kBoardsListed = 100'000;

std::string text_of(const std::set<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

int64_t number_in_variable(const v1::JobSpec& spec, const char* name) {
  const auto found = spec.env().find(name);
  int64_t number = 0;
  if (found == spec.env().end()) return 0;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
  return number;
}

template <class Numbers>
void numbers_in_variable(const v1::JobSpec& spec, const char* name, Numbers& to) {
  const auto found = spec.env().find(name);
  if (found == spec.env().end()) return;
  const char* at = found->second.data();
  const char* const end = at + found->second.size();
  while (at < end) {
    int64_t number = 0;
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc()) return;
    to.Add(number);
    at = read.ptr + 1;  // After the comma.
  }
}

bool is_board(const v1::Job& job) { return job.spec().trial().starts_with(kBoardJob); }
bool is_open(const v1::Job& job) { return job.ended_ms() == 0; }

v1::TensorBoard board_of(const v1::Job& job) {
  v1::TensorBoard board;
  *board.mutable_job() = job;
  numbers_in_variable(job.spec(), kExperimentsVariable, *board.mutable_experiments());
  numbers_in_variable(job.spec(), kTrialsVariable, *board.mutable_trials());
  board.set_port(static_cast<int32_t>(number_in_variable(job.spec(), kPortVariable)));
  board.set_idle_s(number_in_variable(job.spec(), kIdleVariable));
  return board;
}

bool is_of(const v1::Job& job, const security::Principal& by) {
  return by.user.empty() ? job.user().empty() && job.owner() == by.token_id : job.user() == by.user;
}

}  // namespace

void TensorBoardJobs::start(const security::Principal& by, const v1::StartTensorBoardRequest& request,
                            Done<v1::StartTensorBoardReply> done) {
  const auto refuse = [&](std::string message) { done(make_error(ErrorCode::kInvalidArgument, std::move(message))); };
  const std::set<int64_t> experiments(request.experiments().begin(), request.experiments().end());
  const std::set<int64_t> trials(request.trials().begin(), request.trials().end());
  const auto shown = static_cast<int>(experiments.size() + trials.size());
  if (shown == 0 || shown > kShownMost)
    return refuse(fmt::format("experiments and trials: expected 1 to {} together, got {}", kShownMost, shown));
  if (request.idle_s() < 0 || request.idle_s() > kIdleMostS)
    return refuse(
        fmt::format("idle_s: expected 1 to {}, or 0 for {}, got {}", kIdleMostS, kIdleDefaultS, request.idle_s()));
  for (const int64_t id : experiments)
    if (const auto there = parts_.check_experiment(id); !there) return done(make_error(there.error()));
  for (const int64_t id : trials)
    if (const auto there = parts_.check_trial(id); !there) return done(make_error(there.error()));

  v1::StartTensorBoardRequest asked = request;
  asked.mutable_experiments()->Assign(experiments.begin(), experiments.end());
  asked.mutable_trials()->Assign(trials.begin(), trials.end());
  v1::ListJobsRequest open;
  open.set_state("open");
  open.set_limit(kBoardsListed);
  parts_.registry.call<v1::ListJobsReply>(
      "Jobs/ListJobs", by, open, [this, by, asked, done = std::move(done)](const Result<v1::ListJobsReply>& jobs) {
        if (!jobs) return done(make_error(jobs.error()));
        for (const v1::Job& job : jobs->jobs()) {
          if (!is_board(job) || !is_open(job) || job.stopping() || !is_of(job, by)) continue;
          const v1::TensorBoard board = board_of(job);
          if (!std::ranges::equal(board.experiments(), asked.experiments()) ||
              !std::ranges::equal(board.trials(), asked.trials()))
            continue;
          v1::StartTensorBoardReply reply;
          *reply.mutable_board() = board;
          reply.set_existing(true);
          return done(std::move(reply));
        }
        parts_.token(by, "TensorBoard",
                     [this, by, asked, done](const Result<std::pair<std::string, std::string>>& token) {
                       if (!token) return done(make_error(token.error()));
                       parts_.post([this, by, asked, done, token = *token] { submit(by, asked, token, done); });
                     });
      });
}

void TensorBoardJobs::submit(const security::Principal& by, const v1::StartTensorBoardRequest& request,
                             const std::pair<std::string, std::string>& token, Done<v1::StartTensorBoardReply> done) {
  v1::SubmitJobRequest job;
  v1::JobSpec& spec = *job.mutable_spec();
  const std::set<int64_t> experiments(request.experiments().begin(), request.experiments().end());
  const std::set<int64_t> trials(request.trials().begin(), request.trials().end());
  const bool of_trials = experiments.empty();
  const std::string numbers = text_of(of_trials ? trials : experiments);
  spec.set_name(fmt::format("tensorboard-{}", numbers.substr(0, 64)));
  spec.set_note(fmt::format("TensorBoard of {} {}", of_trials ? "trials" : "experiments", numbers).substr(0, 200));
  for (const char* word : {"bash", "-c", "exec \"$VOLADOR_EXECUTABLE\" tensorboard serve"}) spec.add_command(word);
  auto& env = *spec.mutable_env();
  env[kExperimentsVariable] = text_of(experiments);
  env[kTrialsVariable] = text_of(trials);
  env[kPortVariable] = std::to_string(kFirstPort + parts_.random.below(kPorts));
  env[kIdleVariable] = std::to_string(request.idle_s() == 0 ? kIdleDefaultS : request.idle_s());
  for (auto& [name, value] : parts_.env()) env.insert({name, value});
  (*spec.mutable_secrets())["VOLADOR_TOKEN"] = token.second;
  spec.set_cpus(request.cpus() == 0 ? kCpusDefault : request.cpus());
  spec.set_environment(request.environment());
  spec.set_pool(request.pool());
  spec.set_graceful_s(5);
  spec.set_trial(std::string(kBoardJob) + token.first);
  parts_.submit(by, std::move(job),
                [this, token = token.first, done = std::move(done)](const Result<v1::SubmitJobReply>& reply) {
                  if (!reply) {
                    parts_.post([this, token] { parts_.revoke(token); });
                    return done(make_error(reply.error()));
                  }
                  v1::StartTensorBoardReply started;
                  *started.mutable_board() = board_of(reply->job());
                  done(std::move(started));
                });
}

void TensorBoardJobs::list(const security::Principal& by, const v1::ListTensorBoardsRequest& request,
                           Done<v1::ListTensorBoardsReply> done) {
  v1::ListJobsRequest asked;
  if (!request.ended()) asked.set_state("open");
  asked.set_limit(kBoardsListed);
  parts_.registry.call<v1::ListJobsReply>("Jobs/ListJobs", by, asked,
                                          [done = std::move(done)](const Result<v1::ListJobsReply>& jobs) {
                                            if (!jobs) return done(make_error(jobs.error()));
                                            v1::ListTensorBoardsReply reply;
                                            for (const v1::Job& job : jobs->jobs())
                                              if (is_board(job)) *reply.add_boards() = board_of(job);
                                            done(std::move(reply));
                                          });
}

void TensorBoardJobs::on_job(const v1::Job& job) {
  if (is_board(job) && !is_open(job)) parts_.revoke(job.spec().trial().substr(kBoardJob.size()));
}

}  // namespace volador
