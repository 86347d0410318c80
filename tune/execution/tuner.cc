// Entry points tune::run and tune::Tuner: runs started by the program itself, and those requested by the command line.
#include <fmt/format.h>
#include <unistd.h>

#include "runtime/quantities.h"
#include "tune/execution/run_setup.h"
#include "tune/execution/runner.h"
#include "tune/execution/start_order.h"
#include "tune/execution/this_program.h"
#include "tune/results/replay_audit.h"
#include "tune/tune.h"

namespace volador::tune {
namespace {

// Performs the request of volador tune replay: writes the report to its file and runs no trial.
[[noreturn]] void answer_replay(const StartOrder& order, const TrainableRef& trainable, RunOptions options) {
  options.resume = order.directory;
  SystemRandom random;
  auto prepared = prepare_run(trainable, std::move(options), random, Replay::kAsksAgain);
  if (!prepared) throw Exception(std::move(prepared).error());
  const ReplayReport report = audit_replay(*prepared->earlier, *prepared->loop, *prepared->recording);
  if (auto written = write_file_atomically(order.report, report.to_json()); !written)
    throw Exception(std::move(written).error());
  throw Exception({ErrorCode::kCancelled, "volador tune replay asked searcher and scheduler again; no trial is run"});
}

}  // namespace

Analysis run(const TrainableRef& trainable, RunOptions options) {
  auto order = take_start_order(options.name.empty() ? trainable.label : options.name);
  if (!order) throw Exception(std::move(order).error());
  if (order->kind == StartOrder::Kind::kReplay) answer_replay(*order, trainable, std::move(options));
  if (order->kind == StartOrder::Kind::kResume) {
    options.resume = order->directory;
    if (order->failed != StartOrder::Failed::kAsTheProgramSays) {
      options.resume_errored = order->failed == StartOrder::Failed::kResume;
      options.restart_errored = !options.resume_errored;
    }
  }
  const SystemClock clock;
  SystemRandom random;
  RunnerEnvironment environment{.session = Session::current(), .clock = clock, .random = random, .display = {}};
  environment.program = this_program(environment.session->program_sha256());
  environment.source = [folder = environment.program.working_directory] { return source_revision(folder); };
  const bool lines = options.progress == Progress::kLines;
  environment.display.terminal = [lines] { return lines ? TerminalState() : terminal_state(STDERR_FILENO); };
  environment.display.write = [](std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(STDERR_FILENO, bytes.data(), bytes.size());
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  };
  const bool raise = options.raise_on_failed_trial;
  auto analysis = run_experiment(environment, trainable, std::move(options));
  if (!analysis) throw Exception(std::move(analysis).error());
  if (raise && !analysis->errors().empty()) {
    const auto& first = analysis->errors().front();
    throw Exception(
        {ErrorCode::kApplication,
         fmt::format("{} of {} failed. The first, trial {}: {}\n  All results: {}; tune::Analysis::load reads them, "
                     ".raise_on_failed_trial = false returns them.",
                     analysis->errors().size(), counted(analysis->trials().size(), "trial"), to_string(first.trial),
                     first.message, analysis->directory().string())});
  }
  return std::move(*analysis);
}

Tuner Tuner::restore(const std::filesystem::path& directory, TrainableRef trainable, RunOptions options) {
  if (!can_restore(directory)) {
    throw Exception(
        {ErrorCode::kNotFound,
         fmt::format("{}: there is no run to go on with, a journal.vlj is missing there", directory.string())});
  }
  options.resume = directory;
  return Tuner(std::move(trainable), std::move(options));
}

bool Tuner::can_restore(const std::filesystem::path& directory) {
  std::error_code code;
  return std::filesystem::exists(journal_path(directory), code);
}

Analysis Tuner::fit() {
  results_ = run(trainable_, options_);
  options_.resume = results_->directory();
  options_.seed = results_->state().seed;
  return *results_;
}

const Analysis& Tuner::get_results() const {
  if (!results_) throw Exception({ErrorCode::kUnavailable, "tune::Tuner::get_results: call fit() first"});
  return *results_;
}

}  // namespace volador::tune
