// Why a scheduler decided as it did, as facts: for the journal, the live rows and `volador tune why`. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "runtime/language/reason.h"
#include "tune/loop/trial.h"

namespace volador::tune {

// What became of a trial. The order is that of the journal: new ones go to the end.
enum class Act : uint8_t {
  kPassed,    // It goes on past its rung.
  kStopped,   // Others do better.
  kFinished,  // It has run as long as a trial may.
  kPaused,    // It waits for others.
  kResumed,   // It goes on after a pause.
  kCloned,    // It goes on as a copy of another trial.
  kResized,   // It goes on with other resources.
};
std::string_view to_string(Act act);  // "passed", "stopped", …

struct DecisionRecord {
  TrialId trial;
  int64_t step = 0;  // Of the trial.
  Act act = Act::kPassed;
  std::string rule;                                         // "ASHA": who decided.
  int64_t bracket = -1;                                     // -1: there is none.
  double milestone = 0;                                     // Steps of the rung; 0: there is none.
  double value = std::numeric_limits<double>::quiet_NaN();  // Of the metric, as compared.
  int64_t rank =
      0;  // From 1, among `of` trials, itself included; 0: it was not ranked. Equal ones share the better rank.
  int64_t of = 0;
  int64_t pass = 0;                                          // So many of them go on; 0: the cut-off alone decides.
  double cutoff = std::numeric_limits<double>::quiet_NaN();  // The worst value that goes on; the median.
  TrialId other;                                             // kCloned: whose copy.
  Reason detail;                                             // Of schedulers with other reasons; a text will do.

  // NaN equals NaN.
  bool operator==(const DecisionRecord& other) const;
};

// "rank 5 of 12 at step 9 with 0.71; the best 4 go on, from 0.83 (ASHA)". Never empty.
Reason reason_of(const DecisionRecord& record);
inline std::string to_text(const DecisionRecord& record) { return reason_of(record).text(); }

// A rung as its scheduler keeps it.
struct RungMember {
  TrialId trial;
  double value = 0;
  Act act = Act::kPassed;  // What became of it here.
};
struct RungState {
  int64_t bracket = 0;
  double milestone = 0;  // Steps.
  int64_t trials = 0;    // That reached it; more than `members` where those were cut.
  int64_t passed = 0;    // Of them went on.
  double cutoff = std::numeric_limits<double>::quiet_NaN();  // The value that the next one must reach, or that decided;
                                                             // NaN: none yet.
  std::string state;  // "open": trials arrive and are judged at once; "waiting": for `awaited` more; "decided".
  int64_t awaited = 0;
  std::vector<RungMember> members;  // Best first.
};

// Sorted best first and cut; equal ones stay in their order.
void keep_best(std::vector<RungMember>& members, size_t count, Mode mode);

}  // namespace volador::tune
