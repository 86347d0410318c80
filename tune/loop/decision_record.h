// Structured reason of a scheduler's decision, for the journal, the live rows and `volador tune why`. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "runtime/language/reason.h"
#include "tune/loop/trial.h"

namespace volador::tune {

// Outcome of a decision for a trial. The journal stores the number: append new values at the end.
enum class Act : uint8_t {
  kPassed,    // Continues past its rung.
  kStopped,   // Stopped because other trials perform better.
  kFinished,  // Ran the maximum number of steps.
  kPaused,    // Waits for other trials.
  kResumed,   // Continues after a pause.
  kCloned,    // Continues as a copy of another trial.
  kResized,   // Continues with other resources.
};
std::string_view to_string(Act act);  // "passed", "stopped", …

struct DecisionRecord {
  TrialId trial;
  int64_t step = 0;  // Step of the trial.
  Act act = Act::kPassed;
  std::string rule;                                         // The scheduler that decided, for example "ASHA".
  int64_t bracket = -1;                                     // -1: none.
  double milestone = 0;                                     // Steps of the rung; 0: none.
  double value = std::numeric_limits<double>::quiet_NaN();  // Metric value that was compared.
  int64_t rank = 0;  // From 1, among `of` trials including this one; 0: not ranked. Equal trials share the better rank.
  int64_t of = 0;
  int64_t pass = 0;                                          // Number of trials that continue; 0: the cutoff alone
                                                             // decides.
  double cutoff = std::numeric_limits<double>::quiet_NaN();  // The worst value that continues, or the median.
  TrialId other;                                             // kCloned: the trial that was copied.
  Reason detail;                                             // Reason given by schedulers that have no rank or cutoff;
                                                             // free text.

  // Treats NaN as equal to NaN.
  bool operator==(const DecisionRecord& other) const;
};

// "rank 5 of 12 at step 9 with 0.71; the best 4 go on, from 0.83 (ASHA)". Never empty.
Reason reason_of(const DecisionRecord& record);
inline std::string to_text(const DecisionRecord& record) { return reason_of(record).text(); }

// A rung as its scheduler records it.
struct RungMember {
  TrialId trial;
  double value = 0;
  Act act = Act::kPassed;  // Decision for the trial at this rung.
};
struct RungState {
  int64_t bracket = 0;
  double milestone = 0;  // Steps.
  int64_t trials = 0;    // Trials that reached the rung; more than `members` if the list was cut.
  int64_t passed = 0;    // Number of these that continued.
  double cutoff = std::numeric_limits<double>::quiet_NaN();  // Value that the next trial must reach, or that decided;
                                                             // NaN: none yet.
  std::string state;  // "open": trials are judged on arrival; "waiting": until `awaited` more arrive; "decided".
  int64_t awaited = 0;
  std::vector<RungMember> members;  // Best first.
};

// Sorts best first (stable) and truncates to `count`.
void keep_best(std::vector<RungMember>& members, size_t count, Mode mode);

}  // namespace volador::tune
