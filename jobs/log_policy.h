// Log policies: what happens when a line of a job's output matches a pattern (JobSpec.log_policies).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"

namespace volador::jobs {

inline constexpr int kLogPoliciesMax = 32;
inline constexpr size_t kLogPatternBytesMax = 1000;
// The line by which a program reports its speed: time of the hardware and of the whole iteration.
inline constexpr const char* kIterationPattern =
    R"(this iteration hardware time is ([0-9.]+) and e2e time is ([0-9.]+) ms\.)";

// What a rank looks for: LogPolicy.pattern and ratio_above.
struct LogRule {
  std::string pattern;
  double ratio_above = 0;
};
VOLADOR_FIELDS(LogRule, pattern, ratio_above);

inline constexpr int32_t kRankFailed = -1;
struct LogMatch {
  int32_t policy = 0;  // Index. kRankFailed: the line is the exit code of a command that has failed; its rank is kept.
  std::string line;    // Its first 500 bytes.
};
VOLADOR_FIELDS(LogMatch, policy, line);

// Checks the policies of a job. kInvalidArgument: an unknown action, a pattern that is no regular expression, or a move
// of a job that does not resume; the message names the policy and the place in the pattern.
Result<void> check_log_policies(const v1::JobSpec& spec);
// "label", else the pattern: the name of the policy for people.
std::string name_of(const v1::LogPolicy& policy);
std::vector<LogRule> rules_of(const v1::JobSpec& spec);

// Finds the rules in a stream of bytes. Time is linear in the bytes for each rule; lines are matched up to 16 KiB, and
// of a longer one the parts.
class LogMatcher {
 public:
  using Found = std::function<void(size_t rule, std::string_view line)>;
  // kInvalidArgument: see check_log_policies().
  static Result<std::unique_ptr<LogMatcher>> create(const std::vector<LogRule>& rules);
  ~LogMatcher();
  LogMatcher(const LogMatcher&) = delete;
  LogMatcher& operator=(const LogMatcher&) = delete;

  // The next bytes of the stream. Calls `found` for each line that matches, rule by rule.
  void feed(std::string_view bytes, const Found& found);
  // The stream has ended: its last line may lack the line feed.
  void end(const Found& found);

 private:
  struct Rule;
  LogMatcher();
  void look(std::string_view lines, const Found& found) const;

  std::vector<std::unique_ptr<Rule>> rules_;
  std::string rest_;  // Begin of a line whose end has not come.
};

}  // namespace volador::jobs
