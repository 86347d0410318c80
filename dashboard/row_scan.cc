#include "dashboard/row_scan.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace volador::dashboard {
namespace {

// A searched member in one object: the rest of its path, and its index.
struct Want {
  std::string_view rest;
  size_t path = 0;
  bool found_whole = false;
};
struct Wants {
  std::array<Want, RowScan::kPathsMax> all;
  size_t count = 0;
};

class Scanner {
 public:
  Scanner(std::string_view text, std::vector<std::string_view>& values)
      : at_(text.data()), end_(text.data() + text.size()), values_(values) {}

  // Starts at '{' and ends behind the object.
  void object(Wants& wants) {
    for (++at_; at_ < end_ && *at_ != '}';) {
      if (*at_ != '"') {
        ++at_;  // Skip a comma or a space.
        continue;
      }
      std::string storage;
      const std::string_view key = text_of_json(string(), storage);
      while (at_ < end_ && (*at_ == ':' || is_space(*at_))) ++at_;
      member(key, wants);
    }
    at_ = std::min(at_ + 1, end_);
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

  void member(std::string_view key, Wants& wants) {
    const char* const begin = at_;
    Wants deeper;
    if (at_ < end_ && *at_ == '{') {
      for (size_t n = 0; n < wants.count; ++n) {
        const Want& want = wants.all[n];
        const bool leads_on = want.rest.size() > key.size() && want.rest[key.size()] == '.' &&
                              want.rest.starts_with(key) && key.find('.') == std::string_view::npos;
        if (leads_on && !want.found_whole) deeper.all[deeper.count++] = {want.rest.substr(key.size() + 1), want.path};
      }
    }
    if (deeper.count > 0) {
      object(deeper);
    } else {
      skip_value();
    }
    for (size_t n = 0; n < wants.count; ++n) {
      Want& want = wants.all[n];
      if (want.rest != key) continue;
      want.found_whole = true;
      values_[want.path] = {begin, static_cast<size_t>(at_ - begin)};
    }
  }

  // Starts at a quote; returns the string with its quotes.
  std::string_view string() {
    const char* const begin = at_;
    ++at_;
    while (at_ < end_ && *at_ != '"') at_ += *at_ == '\\' ? 2 : 1;
    at_ = std::min(at_ + 1, end_);
    return {begin, static_cast<size_t>(at_ - begin)};
  }

  void skip_value() {
    if (at_ >= end_) return;
    if (*at_ == '"') {
      string();
      return;
    }
    if (*at_ != '{' && *at_ != '[') {
      while (at_ < end_ && *at_ != ',' && *at_ != '}' && *at_ != ']' && !is_space(*at_)) ++at_;
      return;
    }
    for (int depth = 0; at_ < end_;) {
      if (*at_ == '"') {
        string();
        continue;
      }
      depth += *at_ == '{' || *at_ == '[' ? 1 : *at_ == '}' || *at_ == ']' ? -1 : 0;
      ++at_;
      if (depth == 0) return;
    }
  }

  const char* at_;
  const char* const end_;
  std::vector<std::string_view>& values_;
};

}  // namespace

void RowScan::read(std::string_view row, std::vector<std::string_view>& values) const {
  values.assign(paths_.size(), {});
  if (!row.starts_with('{')) return;
  Wants wants;
  for (; wants.count < std::min(paths_.size(), kPathsMax); ++wants.count)
    wants.all[wants.count] = {paths_[wants.count], wants.count};
  Scanner(row, values).object(wants);
}

std::string_view text_of_json(std::string_view json, std::string& storage) {
  if (json.size() < 2) return {};
  if (json.find('\\') == std::string_view::npos) return json.substr(1, json.size() - 2);
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  storage = parsed.is_string() ? parsed.get<std::string>() : std::string();
  return storage;
}

}  // namespace volador::dashboard
