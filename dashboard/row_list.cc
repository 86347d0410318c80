#include "dashboard/row_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "dashboard/row_scan.h"

namespace volador::dashboard {

std::string text_in(const Query& query, const std::string& name) {
  const auto found = query.find(name);
  return found == query.end() ? std::string() : found->second;
}

std::vector<std::string> texts_in(const Query& query, const std::string& name) {
  const std::string whole = text_in(query, name);
  std::vector<std::string> texts;
  for (std::string_view left = whole; !left.empty();) {
    const size_t end = std::min(left.find(','), left.size());
    if (end > 0) texts.emplace_back(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return texts;
}

Result<int64_t> integer_in(const Query& query, const std::string& name, int64_t otherwise, int64_t least,
                           int64_t most) {
  const auto found = query.find(name);
  if (found == query.end()) return otherwise;
  const std::string& text = found->second;
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size() && value >= least && value <= most) return value;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: expected a whole number from {} to {}, got \"{}\"", name, least, most, text));
}

std::string rows_json(const std::vector<std::string_view>& rows, int64_t total, const std::string& next) {
  std::string body = "{\"rows\":[";
  for (size_t at = 0; at < rows.size(); ++at) {
    if (at > 0) body += ',';
    body += rows[at];
  }
  body += fmt::format("],\"total\":{},\"next_page_token\":\"{}\"}}", total, next);
  return body;
}

namespace {

// Copies the member at the path, if the row has it.
void copy_member(const nlohmann::ordered_json& from, std::string_view path, nlohmann::ordered_json& to) {
  if (!from.is_object()) return;
  if (const auto whole = from.find(std::string(path)); whole != from.end()) {
    to[std::string(path)] = *whole;
    return;
  }
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return;
  const auto next = from.find(std::string(path.substr(0, dot)));
  if (next == from.end() || !next->is_object()) return;
  nlohmann::ordered_json& below = to[std::string(path.substr(0, dot))];
  if (!below.is_object()) below = nlohmann::ordered_json::object();
  copy_member(*next, path.substr(dot + 1), below);
}

std::string masked(std::string_view text, const std::vector<std::string>& fields) {
  const auto row = nlohmann::ordered_json::parse(text, nullptr, false);
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const std::string& path : fields) copy_member(row, path, out);
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

Result<RowList> RowList::parse(const Query& query) {
  auto filter = RowFilter::parse(text_in(query, "filter"));
  if (!filter) return make_error(filter.error());
  const auto size = integer_in(query, "page_size", kPageDefault, 1, kPageMax);
  if (!size) return make_error(size.error());
  const auto from = integer_in(query, "page_token", 0, 0, kTokenMax);
  if (!from) return make_error(from.error());
  RowList list;
  list.filter_ = std::move(*filter);
  list.order_ = text_in(query, "order");
  list.descending_ = list.order_.starts_with('-');
  if (list.descending_) list.order_.erase(0, 1);
  list.fields_ = texts_in(query, "fields");
  if (list.fields_.size() > kFieldsMax)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("fields: at most {} members, got {}", kFieldsMax, list.fields_.size()));
  list.size_ = static_cast<size_t>(*size);
  list.from_ = static_cast<size_t>(*from);
  return list;
}

std::string RowList::page(const std::vector<std::string_view>& rows) const {
  struct Found {
    std::string_view text;
    SortKey key;
    size_t at = 0;
  };
  std::vector<std::string> paths = filter_.members();
  if (!order_.empty()) paths.push_back(order_);
  const RowScan scan(paths);
  std::vector<Found> found;
  found.reserve(rows.size());
  std::vector<std::string_view> values;
  for (const std::string_view text : rows) {
    if (!paths.empty()) scan.read(text, values);
    if (filter_.holds(text, values))
      found.push_back({text, order_.empty() ? SortKey() : SortKey::of(values.back()), found.size()});
  }
  const size_t end = std::min(from_ + size_, found.size());
  if (!order_.empty() && from_ < end) {
    // Rows without the member come last in both directions; equal rows keep their order.
    const auto before = [this](const Found& a, const Found& b) {
      const bool turned = descending_ && a.key.kind != SortKey::Kind::kAbsent && b.key.kind != SortKey::Kind::kAbsent;
      const SortKey &first = turned ? b.key : a.key, &second = turned ? a.key : b.key;
      if (first < second) return true;
      return !(second < first) && a.at < b.at;
    };
    std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(end), found.end(), before);
  }
  std::vector<std::string_view> shown;
  for (size_t at = from_; at < end; ++at) shown.push_back(found[at].text);
  std::vector<std::string> cut;
  if (!fields_.empty()) {
    for (std::string_view& text : shown) cut.push_back(masked(text, fields_));
    shown.assign(cut.begin(), cut.end());
  }
  return rows_json(shown, static_cast<int64_t>(found.size()),
                   from_ < end && end < found.size() ? std::to_string(end) : "");
}

}  // namespace volador::dashboard
