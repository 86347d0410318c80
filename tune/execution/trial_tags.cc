#include "tune/execution/trial_tags.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::tune {

Result<void> check_tag(std::string_view tag) {
  const bool fine =
      !tag.empty() && tag.size() <= kTagBytesMax && tag.find_first_of(" ,\t\r\n") == std::string_view::npos;
  if (fine) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("\"{}\": a tag has 1 to {} characters without a space or comma", tag, kTagBytesMax));
}

bool add_tag(std::vector<std::string>& tags, std::string_view tag) {
  if (tags.size() >= kTagsMax || std::find(tags.begin(), tags.end(), tag) != tags.end()) return false;
  tags.emplace_back(tag);
  return true;
}

}  // namespace volador::tune
