// Progress table of an experiment for terminals: a snapshot in, lines out. Pure.
//
//   digits · ASHA max_t 27, factor 3 · 24 trials: 6 running, 14 stopped, 1 finished, 3 waiting (for a CPU: 2 of 2 in use)
//     2 of 2 CPUs · 0:21, about 0:08 left
//   best 3f2a90c1  accuracy 0.983 at step 27   lr 0.0119  batch 32  model.width 48
//   best so far 8be10d77  accuracy 0.985 at step 3
//    trial     status    node   step  accuracy      lr  batch  model.width
//    3f2a90c1  finished  heron    27     0.983  0.0119     32           48
//    8be10d77  running   heron     9     0.971  0.0082     64           32
//    …  3 more running, 17 ended: volador list trials digits
//   results  ~/volador_results/digits_2026-11-21_10-02-11
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/actor/session.h"
#include "runtime/language/language.h"
#include "tune/loop/trial.h"

namespace volador::tune {

struct ProgressRow {
  std::string trial;
  TrialStatus status = TrialStatus::kWaiting;
  std::string node;
  int64_t step = 0;
  std::optional<double> value;          // Metric; no value before the first report.
  std::vector<std::string> parameters;  // In the order of ProgressSnapshot::parameters; empty if the trial does not
                                        // Error of a failed trial.
  Reason error;                         // Set for failed trials.
  std::string resources = {};           // If they change; adds a column if any row has some.
};

struct ProgressBest {
  std::string trial;
  double value = 0;
  int64_t step = 0;
  std::vector<std::string> parameters;  // As in ProgressRow.
};

struct ProgressSnapshot {
  std::string name;
  std::string key;        // Key for `volador list trials`; empty: the name.
  std::string scheduler;  // "ASHA max_t 27, factor 3".
  std::string metric;     // Empty: none; there is then no best line and no such column.
  Mode mode = Mode::kMax;
  int64_t counts[kTrialStatuses] = {};
  std::optional<int64_t> trials_total;      // Trials not suggested yet count as waiting.
  Reason waiting_reason;                    // Reason of the first waiting trial; may be empty.
  std::string resources;                    // "2 of 2 CPUs, 0.5 of 1 GPU"; may be empty.
  std::vector<std::string> parameters;      // Variable parameters, by path.
  std::vector<ProgressRow> rows;            // All trials.
  std::optional<ProgressBest> best;         // By the last values,
  std::optional<ProgressBest> best_so_far;  // and by the best values; shown if it differs.
  std::chrono::nanoseconds elapsed{0};
  bool goes_on = false;          // Neither ending nor paused; the time left is then shown,
  std::optional<TimeLeft> left;  // as "–" if it is unknown.
  std::string directory;         // Display form.
  std::string ending;            // "interrupted: trials checkpoint and stop"; empty while it runs.
};

struct TableLimits {
  int columns = 100;  // Width of the terminal: no line is wider.
  int rows_max = 12;  // Trials shown: the best, the running ones and the newest others in turn.
  bool colour = false;
  Language language = Language::kEnglish;
};

// Returns at least one line, without line breaks.
std::vector<std::string> progress_lines(const ProgressSnapshot& snapshot, const TableLimits& limits);

// The headline as one line of any width: status, counts, resources and time. In the table it is broken into lines that
// fit.
std::string progress_headline(const ProgressSnapshot& snapshot, Language language = Language::kEnglish);
// The best trial; empty if there is none.
std::string progress_best_line(const ProgressSnapshot& snapshot, Language language = Language::kEnglish);
// The best value at any step; empty if it equals the best final value.
std::string progress_best_so_far_line(const ProgressSnapshot& snapshot, Language language = Language::kEnglish);

// "about 0:08 left (0:06 to 0:13)"; "– left" if unknown.
std::string format_left(const std::optional<TimeLeft>& left, Language language = Language::kEnglish);
// "0:21", "1:02:03".
std::string format_elapsed(std::chrono::nanoseconds elapsed);
// At most four significant digits: "0.983", "0.0119", "1.2e-05", "nan".
std::string format_value(double value);

// Returns the terminal columns of UTF-8 text: wide East Asian characters take two, combining characters none.
int display_width(std::string_view text);
// Truncates to `columns` with "…" at the end; control characters become "?".
std::string cut_to_width(std::string_view text, int columns);

}  // namespace volador::tune
