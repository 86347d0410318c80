// A searcher or a scheduler in a few words, "asha:grace_period=1,reduction_factor=3": its name and options by their
// names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::tune {

// Each option is taken once; what is left then is unknown. The first error is kept for check().
class SpecOptions {
 public:
  // kInvalidArgument: what follows the colon are no pairs.
  [[nodiscard]] static Result<SpecOptions> parse(std::string_view text);

  const std::string& name() const { return name_; }
  // What the text gives, or `otherwise`.
  int64_t integer(const std::string& option, int64_t otherwise);
  double real(const std::string& option, double otherwise);
  bool boolean(const std::string& option, bool otherwise);
  // Empty where it is not given.
  std::string one_of(const std::string& option, const std::vector<std::string>& words);

  // After all were taken. kInvalidArgument: a value is wrong, or there is no such option; names it and those there are.
  [[nodiscard]] Result<void> check() const;
  // The factory, where all is well.
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
