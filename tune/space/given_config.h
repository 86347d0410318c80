// Configurations that people give where a searcher proposes others: whether the space may draw them, and what they leave
// open. Pure.
#pragma once

#include <string_view>

#include "runtime/random.h"
#include "runtime/result.h"
#include "tune/space/config.h"
#include "tune/space/space.h"

namespace volador::tune {

// `given`, which may leave parameters out, as the space would draw it: a whole number where a real one is expected is
// that real number. kInvalidArgument: it names what the space has not, or gives a value that is never drawn; the message
// starts with `what` and names path, value and rule.
[[nodiscard]] Result<Config> given_config(std::string_view what, const Space& space, const Config& given);

// `given` over `config`, both of this space: maps are merged where the space has a map, everything else is replaced.
void lay_over(Config& config, const Config& given, const Space& space);

// The same as given_config, and what it leaves out is drawn; points of grid_search axes too.
[[nodiscard]] Result<Config> completed_config(std::string_view what, const Space& space, const Config& given,
                                              Random& random);

// `like`, a configuration of this space, with the values of `given` instead of its own; what it leaves out is drawn. A
// choice whose options are maps is one value: another option takes the place of the whole former one. kInvalidArgument:
// as of given_config; or `like` itself has a value that the space never draws, and `given` has none for it.
[[nodiscard]] Result<Config> changed_config(std::string_view what, const Space& space, const Config& like,
                                            const Config& given, Random& random);

}  // namespace volador::tune
