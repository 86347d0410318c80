// Validation and completion of configurations that the user supplies instead of a searcher. Pure.
#pragma once

#include <string_view>

#include "runtime/random.h"
#include "runtime/result.h"
#include "tune/space/config.h"
#include "tune/space/space.h"

namespace volador::tune {

// Returns `given`, which may be partial, in the form in which the space draws it: an integer becomes a real number
// where the domain is real. kInvalidArgument: `given` has a name that is not in the space, or a value outside its
// domain; the message starts with `what` and names path, value and rule.
[[nodiscard]] Result<Config> given_config(std::string_view what, const Space& space, const Config& given);

// Overwrites `config` with `given`, both of this space: maps of the space are merged, everything else is replaced.
void lay_over(Config& config, const Config& given, const Space& space);

// As given_config(), and draws the parameters that `given` leaves out. Points of grid_search axes are allowed too.
[[nodiscard]] Result<Config> completed_config(std::string_view what, const Space& space, const Config& given,
                                              Random& random);

// Returns `like`, a configuration of this space, with the values of `given` in place of its own; new parameters that
// `given` leaves out are drawn. A choice whose options are maps is one value: another option replaces the former one as
// a whole. kInvalidArgument: as given_config(); or `like` has a value outside its domain that `given` does not replace.
[[nodiscard]] Result<Config> changed_config(std::string_view what, const Space& space, const Config& like,
                                            const Config& given, Random& random);

}  // namespace volador::tune
