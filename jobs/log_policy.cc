#include "jobs/log_policy.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

constexpr size_t kMatchedLineBytes = 16 << 10;
constexpr size_t kLogLabelBytesMax = 128;
constexpr std::array<std::string_view, 5> kLogActions{"label", "notify", "exclude_node", "cancel_retries", "move"};

// Lines are searched many at once: ^ and $ are the ends of lines, and nothing matches a line feed.
RE2::Options log_pattern_options() {
  RE2::Options options(RE2::Quiet);
  options.set_never_nl(true);
  options.set_max_mem(int64_t{1} << 20);
  return options;
}

std::string pattern_of(const LogRule& rule) {
  return rule.pattern.empty() && rule.ratio_above > 0 ? kIterationPattern : rule.pattern;
}

Result<std::unique_ptr<RE2>> compiled(const LogRule& rule) {
  const std::string pattern = pattern_of(rule);
  if (pattern.empty()) return make_error(ErrorCode::kInvalidArgument, "pattern: expected a regular expression");
  if (pattern.size() > kLogPatternBytesMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("pattern: expected at most {} bytes, got {}", kLogPatternBytesMax, pattern.size()));
  }
  auto made = std::make_unique<RE2>("(?m)" + pattern, log_pattern_options());
  if (!made->ok()) {
    const size_t at = pattern.find(made->error_arg());
    const std::string place =
        at == std::string::npos || made->error_arg().empty() ? std::string() : fmt::format(" at character {}", at + 1);
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("pattern: \"{}\" is no regular expression: {}{}", pattern, made->error(), place));
  }
  if (rule.ratio_above > 0 && made->NumberOfCapturingGroups() < 2) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("pattern: with ratio_above it has two groups, whose numbers are divided; \"{}\" has {}", pattern,
                    made->NumberOfCapturingGroups()));
  }
  return made;
}

}  // namespace

std::string name_of(const v1::LogPolicy& policy) {
  if (!policy.label().empty()) return policy.label();
  return policy.pattern().empty() ? fmt::format("ratio above {:g}", policy.ratio_above()) : policy.pattern();
}

std::vector<LogRule> rules_of(const v1::JobSpec& spec) {
  std::vector<LogRule> rules;
  for (const v1::LogPolicy& policy : spec.log_policies())
    rules.push_back({.pattern = policy.pattern(), .ratio_above = policy.ratio_above()});
  return rules;
}

Result<void> check_log_policies(const v1::JobSpec& spec) {
  if (spec.log_policies_size() > kLogPoliciesMax) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("log_policies: expected at most {}, got {}",
                                                               kLogPoliciesMax, spec.log_policies_size()));
  }
  const std::vector<LogRule> rules = rules_of(spec);
  for (int i = 0; i < spec.log_policies_size(); ++i) {
    const v1::LogPolicy& policy = spec.log_policies(i);
    const auto bad = [&](const std::string& what) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("log_policies, number {}: {}", i + 1, what));
    };
    if (std::ranges::find(kLogActions, policy.action()) == kLogActions.end()) {
      return bad(fmt::format("action: expected label, notify, exclude_node, cancel_retries or move, got \"{}\"",
                             policy.action()));
    }
    if (!std::isfinite(policy.ratio_above()) || policy.ratio_above() < 0)
      return bad(fmt::format("ratio_above: expected a number above 0, got {:g}", policy.ratio_above()));
    if (policy.label().size() > kLogLabelBytesMax) {
      return bad(fmt::format("label: expected at most {} bytes, got {}", kLogLabelBytesMax, policy.label().size()));
    }
    if (policy.action() == "move" && spec.max_resumes() == 0)
      return bad("move: only a job that resumes can be moved; give max_resumes");
    if (const auto made = compiled(rules[static_cast<size_t>(i)]); !made) return bad(made.error().message);
  }
  return {};
}

struct LogMatcher::Rule {
  std::unique_ptr<RE2> pattern;
  double ratio_above = 0;

  // Whether the numbers of the line, which matches, are in the ratio.
  bool in_ratio(std::string_view line) const {
    if (ratio_above <= 0) return true;
    std::array<re2::StringPiece, 3> groups;
    const re2::StringPiece text(line.data(), line.size());
    if (!pattern->Match(text, 0, text.size(), RE2::UNANCHORED, groups.data(), 3)) return false;
    const auto first = parse_real(std::string(groups[1].data(), groups[1].size()));
    const auto second = parse_real(std::string(groups[2].data(), groups[2].size()));
    return first && second && *second > 0 && *first / *second > ratio_above;
  }
};

LogMatcher::LogMatcher() = default;
LogMatcher::~LogMatcher() = default;

Result<std::unique_ptr<LogMatcher>> LogMatcher::create(const std::vector<LogRule>& rules) {
  std::unique_ptr<LogMatcher> matcher(new LogMatcher);
  for (const LogRule& rule : rules) {
    auto pattern = compiled(rule);
    if (!pattern) return make_error(pattern.error());
    matcher->rules_.push_back(std::make_unique<Rule>());
    matcher->rules_.back()->pattern = std::move(*pattern);
    matcher->rules_.back()->ratio_above = rule.ratio_above;
  }
  return matcher;
}

void LogMatcher::look(std::string_view lines, const Found& found) const {
  for (size_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = *rules_[i];
    for (size_t from = 0; from < lines.size();) {
      const re2::StringPiece text(lines.data(), lines.size());
      re2::StringPiece match;
      if (!rule.pattern->Match(text, from, text.size(), RE2::UNANCHORED, &match, 1)) break;
      const auto at = static_cast<size_t>(match.data() - lines.data());
      if (at >= lines.size()) break;
      const size_t before = at == 0 ? std::string_view::npos : lines.rfind('\n', at - 1);
      const size_t begin = before == std::string_view::npos ? 0 : before + 1;
      const size_t end = std::min(lines.find('\n', at), lines.size());
      const std::string_view line = lines.substr(begin, end - begin);
      if (rule.in_ratio(line)) found(i, line);
      from = end + 1;
    }
  }
}

void LogMatcher::feed(std::string_view bytes, const Found& found) {
  const size_t last = bytes.rfind('\n');
  if (last != std::string_view::npos) {
    const std::string_view whole = bytes.substr(0, last + 1);
    if (rest_.empty()) {
      look(whole, found);
    } else {
      // The unfinished line by itself, so that the rest need not be copied.
      const size_t first = bytes.find('\n') + 1;
      rest_.append(bytes.substr(0, first));
      look(rest_, found);
      rest_.clear();
      look(whole.substr(first), found);
    }
    bytes.remove_prefix(last + 1);
  }
  rest_.append(bytes);
  if (rest_.size() <= kMatchedLineBytes) return;
  look(rest_, found);
  rest_.clear();
}

void LogMatcher::end(const Found& found) {
  look(rest_, found);
  rest_.clear();
}

}  // namespace volador::jobs
