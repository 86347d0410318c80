#include "experiments/katib/parameter_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

namespace volador::experiments::katib {
namespace {

using api::v1::beta1::ParameterSpec;

constexpr uint64_t kCombinationsMax = uint64_t{1} << 62;
constexpr int kDigitsMax = 18;
constexpr double kIntegerMax = 0x1.0p62;
constexpr double kDeviations = 3;  // A normal range extends so many standard deviations from its middle.

tl::unexpected<Error> refused_parameter(const std::string& name, const std::string& what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("parameter \"{}\": {}", name, what));
}

std::optional<double> real_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int64_t> integer_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A decimal number: mantissa × 10^-digits.
struct Decimal {
  __int128 mantissa = 0;
  int digits = 0;
};

constexpr __int128 power_of_ten(int exponent) {
  __int128 power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

// No value: more digits than an int64_t has.
std::optional<Decimal> decimal_of(std::string_view text) {
  Decimal out;
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const size_t at = text.find_first_of("eE");
  int64_t exponent = 0;
  if (at != text.npos) {
    const auto read = integer_of(text.substr(at + 1));
    if (!read || std::abs(*read) > kDigitsMax) return std::nullopt;
    exponent = *read;
    text = text.substr(0, at);
  }
  int seen = 0;
  bool in_fraction = false;
  for (const char letter : text) {
    if (letter == '.') {
      in_fraction = true;
      continue;
    }
    if (letter < '0' || letter > '9' || ++seen > kDigitsMax) return std::nullopt;
    out.mantissa = 10 * out.mantissa + (letter - '0');
    if (in_fraction) ++out.digits;
  }
  out.digits -= static_cast<int>(exponent);
  if (out.digits > kDigitsMax || out.digits < -kDigitsMax) return std::nullopt;
  if (out.digits < 0) {
    out.mantissa *= power_of_ten(-out.digits);
    out.digits = 0;
  }
  if (is_negative) out.mantissa = -out.mantissa;
  return out;
}

// With `digits` digits after the point; no value: it does not fit into an int64_t.
std::optional<int64_t> scaled(const Decimal& decimal, int digits) {
  if (digits - decimal.digits > kDigitsMax) return std::nullopt;
  constexpr __int128 kMost = static_cast<__int128>(1) << 62;
  const __int128 bound = kMost / power_of_ten(digits - decimal.digits);
  if (decimal.mantissa > bound || decimal.mantissa < -bound) return std::nullopt;
  return static_cast<int64_t>(decimal.mantissa * power_of_ten(digits - decimal.digits));
}

std::string text_of_decimal(__int128 mantissa, int digits) {
  const bool is_negative = mantissa < 0;
  std::string out;
  for (__int128 rest = is_negative ? -mantissa : mantissa; rest > 0 || out.empty(); rest /= 10)
    out += static_cast<char>('0' + static_cast<int>(rest % 10));
  while (static_cast<int>(out.size()) <= digits) out += '0';
  std::reverse(out.begin(), out.end());
  if (digits > 0) {
    out.insert(out.size() - static_cast<size_t>(digits), 1, '.');
    out.erase(out.find_last_not_of('0') + 1);
    if (out.ends_with('.')) out.pop_back();
  }
  return is_negative && out != "0" ? "-" + out : out;
}

}  // namespace

Result<ParameterValues> ParameterValues::create(const ParameterSpec& spec) {
  ParameterValues values;
  values.name_ = spec.name();
  if (spec.name().empty()) return make_error(ErrorCode::kInvalidArgument, "a parameter has no name");
  switch (spec.parameter_type()) {
    case api::v1::beta1::DISCRETE:
    case api::v1::beta1::CATEGORICAL: {
      VOLADOR_TRY(values.read_list(spec));
      break;
    }
    case api::v1::beta1::DOUBLE:
    case api::v1::beta1::INT: {
      VOLADOR_TRY(values.read_range(spec));
      break;
    }
    default:
      return refused_parameter(spec.name(), "expected parameterType double, int, discrete or categorical");
  }
  return values;
}

Result<void> ParameterValues::read_list(const ParameterSpec& spec) {
  form_ = Form::kList;
  is_ordered_ = spec.parameter_type() == api::v1::beta1::DISCRETE;
  for (const std::string& text : spec.feasible_space().list()) {
    if (is_ordered_ && !real_of(text))
      return refused_parameter(name_,
                               fmt::format("feasibleSpace.list: a discrete parameter has numbers, got \"{}\"", text));
    if (std::find(texts_.begin(), texts_.end(), text) == texts_.end()) texts_.push_back(text);
  }
  if (texts_.empty()) return refused_parameter(name_, "feasibleSpace.list: expected at least one value");
  if (is_ordered_) {
    std::stable_sort(texts_.begin(), texts_.end(),
                     [](const std::string& a, const std::string& b) { return *real_of(a) < *real_of(b); });
    domain_ = tune::randint(0, static_cast<int64_t>(texts_.size()));
    return {};
  }
  std::vector<int64_t> options;
  for (size_t i = 0; i < texts_.size(); ++i) options.push_back(static_cast<int64_t>(i));
  domain_ = tune::choice(options);
  return {};
}

Result<void> ParameterValues::read_range(const ParameterSpec& spec) {
  const auto& feasible = spec.feasible_space();
  const bool is_integer = spec.parameter_type() == api::v1::beta1::INT;
  const std::string* const texts[] = {&feasible.min(), &feasible.max(), &feasible.step()};
  const char* const names[] = {"min", "max", "step"};
  double numbers[3] = {0, 0, is_integer ? 1.0 : 0.0};
  for (size_t i = 0; i < 3; ++i) {
    if (i == 2 && texts[i]->empty()) continue;
    const auto number = real_of(*texts[i]);
    if (!number || (is_integer && !integer_of(*texts[i]))) {
      return refused_parameter(name_, fmt::format("feasibleSpace.{}: expected {}, got \"{}\"", names[i],
                                                  is_integer ? "an integer" : "a number", *texts[i]));
    }
    if (is_integer && std::abs(*number) > kIntegerMax / 2)
      return refused_parameter(name_,
                               fmt::format("feasibleSpace.{}: expected at most 2^61, got {}", names[i], *texts[i]));
    numbers[i] = *number;
  }
  min_ = numbers[0];
  max_ = numbers[1];
  step_ = numbers[2];
  if (min_ > max_) {
    return refused_parameter(name_,
                             fmt::format("feasibleSpace: min {} is above max {}", feasible.min(), feasible.max()));
  }
  if (!feasible.step().empty() && !(step_ > 0))
    return refused_parameter(name_,
                             fmt::format("feasibleSpace.step: expected a number above 0, got \"{}\"", feasible.step()));
  const auto distribution = feasible.distribution();
  exponential_ = distribution == api::v1::beta1::LOG_NORMAL;
  const bool is_log = exponential_ || distribution == api::v1::beta1::LOG_UNIFORM;
  if (is_log && !(min_ > 0)) {
    return refused_parameter(name_, fmt::format("feasibleSpace.min: distribution {} needs a number above 0, got {}",
                                                exponential_ ? "logNormal" : "logUniform", feasible.min()));
  }
  if (step_ > 0) {
    const auto low = decimal_of(feasible.min()), high = decimal_of(feasible.max());
    const auto by = decimal_of(feasible.step().empty() ? "1" : feasible.step());
    if (low && high && by) {
      digits_ = std::max({low->digits, high->digits, by->digits});
      const auto first = scaled(*low, digits_), last = scaled(*high, digits_), each = scaled(*by, digits_);
      if (first && last && each) {
        first_ = *first;
        by_ = *each;
        cells_ = static_cast<uint64_t>((static_cast<__int128>(*last) - *first) / *each) + 1;
      }
    }
    if (!cells_) {
      const double cells = std::floor((max_ - min_) / step_ + 1e-9);
      if (cells > kIntegerMax) return refused_parameter(name_, "feasibleSpace: more than 2^62 values");
      cells_ = static_cast<uint64_t>(cells) + 1;
    }
  }
  if (min_ == max_ || cells_ == 1) {
    form_ = Form::kList;
    texts_ = {is_integer ? std::to_string(*integer_of(feasible.min())) : feasible.min()};
    cells_.reset();
    domain_ = tune::randint(0, 1);
    return {};
  }
  switch (distribution) {
    case api::v1::beta1::NORMAL:
    case api::v1::beta1::LOG_NORMAL: {
      const double low = exponential_ ? std::log(min_) : min_, high = exponential_ ? std::log(max_) : max_;
      form_ = Form::kReal;
      domain_ = tune::randn((low + high) / 2, (high - low) / (2 * kDeviations));
      break;
    }
    case api::v1::beta1::LOG_UNIFORM:
      if (is_integer && step_ == 1) {
        form_ = Form::kInteger;
        domain_ = tune::lograndint(static_cast<int64_t>(min_), static_cast<int64_t>(max_) + 1);
      } else {
        form_ = Form::kReal;
        domain_ = tune::loguniform(min_, max_);
      }
      break;
    default:
      if (cells_) {
        form_ = Form::kCells;
        domain_ = tune::randint(0, static_cast<int64_t>(*cells_));
      } else {
        form_ = Form::kReal;
        domain_ = tune::uniform(min_, max_);
      }
  }
  return {};
}

std::optional<uint64_t> ParameterValues::count() const { return form_ == Form::kList ? texts_.size() : cells_; }

double ParameterValues::number(uint64_t cell) const { return min_ + static_cast<double>(cell) * step_; }

std::string ParameterValues::value(uint64_t index) const {
  if (form_ == Form::kList) return texts_[index];
  if (by_ != 0) return text_of_decimal(first_ + static_cast<__int128>(index) * by_, digits_);
  // The sum of two rounded numbers is right in the first 15 digits.
  return fmt::format("{:.15g}", number(index));
}

std::optional<uint64_t> ParameterValues::index_of(std::string_view text) const {
  if (form_ == Form::kList) {
    const auto found = std::find(texts_.begin(), texts_.end(), text);
    if (found != texts_.end()) return static_cast<uint64_t>(found - texts_.begin());
    const auto given = real_of(text);
    for (size_t i = 0; is_ordered_ && given && i < texts_.size(); ++i) {
      if (real_of(texts_[i]) == given) return i;
    }
    return std::nullopt;
  }
  const auto given = real_of(text);
  if (!given || !cells_) return std::nullopt;
  const double at = std::round((*given - min_) / step_);
  if (!(at >= 0 && at < static_cast<double>(*cells_))) return std::nullopt;
  const auto index = static_cast<uint64_t>(at);
  if (std::abs(*given - number(index)) > 1e-6 * step_) return std::nullopt;
  return index;
}

tune::SpaceNode ParameterValues::domain() const { return domain_; }

std::string ParameterValues::text_of_number(double number) const {
  const double inside = std::clamp(number, min_, max_);
  if (!cells_) return tune::format_real(inside);
  const double at = std::round((inside - min_) / step_);
  return value(std::min(static_cast<uint64_t>(std::max(at, 0.0)), *cells_ - 1));
}

std::string ParameterValues::text_of(const tune::Config& drawn) const {
  switch (form_) {
    case Form::kList:
    case Form::kCells:
      return value(static_cast<uint64_t>(drawn.integer()));
    case Form::kInteger:
      return std::to_string(drawn.integer());
    case Form::kReal:
      break;
  }
  return text_of_number(exponential_ ? std::exp(drawn.real()) : drawn.real());
}

std::optional<tune::Config> ParameterValues::drawn_of(std::string_view text) const {
  if (form_ == Form::kReal && !cells_) {
    const auto given = real_of(text);
    if (!given || *given < min_ || *given > max_) return std::nullopt;
    return tune::Config(exponential_ ? std::log(*given) : *given);
  }
  const auto index = index_of(text);
  if (!index) return std::nullopt;
  if (form_ == Form::kInteger) return tune::Config(static_cast<int64_t>(min_) + static_cast<int64_t>(*index));
  if (form_ == Form::kReal) return tune::Config(exponential_ ? std::log(number(*index)) : number(*index));
  return tune::Config(static_cast<int64_t>(*index));
}

std::string ParameterValues::moved(std::string_view text, double factor) const {
  const bool up = factor > 1;
  if (form_ != Form::kList && !cells_) {
    const auto given = real_of(text);
    return given ? text_of_number(*given * factor) : std::string(text);
  }
  const auto index = index_of(text);
  if (!index) return std::string(text);
  const uint64_t last = *count() - 1;
  uint64_t next = *index;
  if (form_ != Form::kList) next = *index_of(text_of_number(number(*index) * factor));
  if (next == *index) next = up ? std::min(*index + 1, last) : *index - std::min<uint64_t>(*index, 1);
  return value(next);
}

Result<ParameterSpace> ParameterSpace::create(const api::v1::beta1::ExperimentSpec::ParameterSpecs& specs) {
  ParameterSpace space;
  for (const ParameterSpec& spec : specs.parameters()) {
    auto values = ParameterValues::create(spec);
    if (!values) return make_error(values.error());
    if (space.find(spec.name()) != nullptr) return refused_parameter(spec.name(), "the name occurs twice");
    space.parameters_.push_back(std::move(*values));
  }
  if (space.parameters_.empty()) return make_error(ErrorCode::kInvalidArgument, "the experiment has no parameters");
  return space;
}

const ParameterValues* ParameterSpace::find(std::string_view name) const {
  for (const ParameterValues& one : parameters_) {
    if (one.name() == name) return &one;
  }
  return nullptr;
}

void ParameterSpace::remove(std::string_view name) {
  std::erase_if(parameters_, [&](const ParameterValues& one) { return one.name() == name; });
}

tune::Space ParameterSpace::space() const {
  tune::Space space;
  for (size_t i = 0; i < parameters_.size(); ++i) space.set(fmt::format("p{}", i), parameters_[i].domain());
  return space;
}

std::optional<uint64_t> ParameterSpace::count() const {
  __int128 product = 1;
  for (const ParameterValues& one : parameters_) {
    const auto count = one.count();
    if (!count || (product *= *count) > kCombinationsMax) return std::nullopt;
  }
  return static_cast<uint64_t>(product);
}

bool ParameterSpace::is_exact() const {
  return std::all_of(parameters_.begin(), parameters_.end(), [](const ParameterValues& one) { return one.is_exact(); });
}

ParameterSpace::Texts ParameterSpace::texts_of(const tune::Config& drawn) const {
  Texts texts;
  for (size_t i = 0; i < parameters_.size(); ++i)
    texts.push_back(parameters_[i].text_of(*drawn.find(fmt::format("p{}", i))));
  return texts;
}

ParameterSpace::Texts ParameterSpace::combination(uint64_t number) const {
  Texts texts(parameters_.size());
  for (size_t i = parameters_.size(); i-- > 0;) {
    const uint64_t count = *parameters_[i].count();
    texts[i] = parameters_[i].value(number % count);
    number /= count;
  }
  return texts;
}

std::optional<ParameterSpace::Texts> ParameterSpace::texts_of(const api::v1::beta1::Trial& trial) const {
  Texts texts;
  for (const ParameterValues& one : parameters_) {
    const auto& given = trial.spec().parameter_assignments().assignments();
    const auto found = std::find_if(given.begin(), given.end(),
                                    [&](const auto& assignment) { return assignment.name() == one.name(); });
    if (found == given.end()) return std::nullopt;
    texts.push_back(found->value());
  }
  return texts;
}

std::optional<tune::Config> ParameterSpace::drawn_of(const Texts& texts) const {
  tune::Config config = tune::Config::map();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto drawn = parameters_[i].drawn_of(texts[i]);
    if (!drawn) return std::nullopt;
    config.set(fmt::format("p{}", i), std::move(*drawn));
  }
  return config;
}

std::optional<uint64_t> ParameterSpace::number_of(const Texts& texts) const {
  uint64_t number = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto index = parameters_[i].index_of(texts[i]);
    if (!index) return std::nullopt;
    number = number * *parameters_[i].count() + *index;
  }
  return number;
}

}  // namespace volador::experiments::katib
