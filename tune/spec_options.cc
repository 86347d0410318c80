#include "tune/spec_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/nearest_word.h"
#include "runtime/quantities.h"

namespace volador::tune {

Result<SpecOptions> SpecOptions::parse(std::string_view text) {
  const size_t colon = text.find(':');
  SpecOptions spec;
  spec.name_ = text.substr(0, colon);
  auto pairs = parse_pairs(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (!pairs) return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", spec.name_, pairs.error().message));
  spec.values_ = std::move(*pairs);
  return spec;
}

template <class T, class F>
T SpecOptions::take(const std::string& option, T otherwise, F parse) {
  known_.push_back(option);
  const auto found = values_.find(option);
  if (found == values_.end()) return otherwise;
  const auto value = parse(found->second);
  if (!value) fail(fmt::format("{}.{}: {}", name_, option, value.error().message));
  values_.erase(found);
  return value ? static_cast<T>(*value) : otherwise;
}

int64_t SpecOptions::integer(const std::string& option, int64_t otherwise) {
  return take(option, otherwise, [](const std::string& text) { return parse_integer(text); });
}
double SpecOptions::real(const std::string& option, double otherwise) {
  return take(option, otherwise, [](const std::string& text) { return parse_real(text); });
}
std::optional<double> SpecOptions::real(const std::string& option) {
  return take(option, std::optional<double>(), [](const std::string& text) { return parse_real(text); });
}
bool SpecOptions::boolean(const std::string& option, bool otherwise) {
  return take(option, otherwise, [](const std::string& text) { return parse_boolean(text); });
}

std::string SpecOptions::one_of(const std::string& option, const std::vector<std::string>& words) {
  return take(option, std::string(), [&](const std::string& text) -> Result<std::string> {
    if (std::find(words.begin(), words.end(), text) != words.end()) return text;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("expected {}, got \"{}\"", fmt::join(words, ", "), text));
  });
}

Result<void> SpecOptions::check() const {
  if (error_) return make_error(*error_);
  if (values_.empty()) return {};
  const std::string& word = values_.begin()->first;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: there is no option \"{}\"{}; known: {}", name_, word, did_you_mean(word, known_),
                                known_.empty() ? "none" : fmt::format("{}", fmt::join(known_, ", "))));
}

}  // namespace volador::tune
