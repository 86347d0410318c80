// Text form of a searcher or scheduler, "asha:grace_period=1,reduction_factor=3": its name and named options.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::tune {

// The caller takes each option once; options left over are unknown. The first error is kept for check().
class SpecOptions {
 public:
  // kInvalidArgument: the text after the colon is not a list of name=value pairs.
  [[nodiscard]] static Result<SpecOptions> parse(std::string_view text);

  const std::string& name() const { return name_; }
  // The value in the text, or `otherwise`.
  int64_t integer(const std::string& option, int64_t otherwise);
  double real(const std::string& option, double otherwise);
  std::optional<double> real(const std::string& option);  // No value: the option is absent.
  bool boolean(const std::string& option, bool otherwise);
  // Empty if the option is absent.
  std::string one_of(const std::string& option, const std::vector<std::string>& words);

  // Called after all options were taken. kInvalidArgument: a value is wrong or an option is unknown; names it and the
  // valid options.
  [[nodiscard]] Result<void> check() const;
  // Returns the factory if check() succeeds.
  template <class Factory>
  [[nodiscard]] Result<Factory> make(Factory factory) const {
    VOLADOR_TRY(check());
    return factory;
  }

 private:
  template <class T, class F>
  T take(const std::string& option, T otherwise, F parse);
  void fail(std::string message) {
    if (!error_) error_ = Error{ErrorCode::kInvalidArgument, std::move(message)};
  }

  std::string name_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

}  // namespace volador::tune
