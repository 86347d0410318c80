#include "runtime/yaml/reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "runtime/utf8.h"

namespace volador::yaml {
namespace {

constexpr std::string_view kMergeKey = "<<";
constexpr std::string_view kPlainTag = "?";
constexpr std::string_view kQuotedTag = "!";
constexpr std::string_view kStandardTags = "tag:yaml.org,2002:";

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<int64_t> integer_of(std::string_view digits, bool negative, int base) {
  std::string bare = negative ? "-" : "";
  for (const char c : digits)
    if (c != '_') bare += c;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(bare.data(), bare.data() + bare.size(), value, base);
  if (error != std::errc() || end != bare.data() + bare.size() || digits.empty() || digits.front() == '_')
    return std::nullopt;
  return value;
}

// 12, 1_000, 0x1f, 0o17, 0b101, with a sign.
std::optional<int64_t> plain_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  for (const auto& [prefix, base] : {std::pair<std::string_view, int>{"0x", 16}, {"0o", 8}, {"0b", 2}}) {
    if (text.starts_with(prefix)) return integer_of(text.substr(prefix.size()), negative, base);
  }
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  return integer_of(text, negative, 10);
}

// 1.5, .5, 1e-4, 1_000.5, with a sign; also an integer that has more digits than int64_t holds.
std::optional<double> plain_number(std::string_view text) {
  std::string bare;
  bool has_digit = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '_' && has_digit) continue;
    const bool is_sign = (c == '-' || c == '+') && (at == 0 || text[at - 1] == 'e' || text[at - 1] == 'E');
    const bool is_exponent = (c == 'e' || c == 'E') && has_digit;
    if (!is_digit(c) && c != '.' && !is_sign && !is_exponent) return std::nullopt;
    has_digit = has_digit || is_digit(c);
    if (c != '+') bare += c;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(bare.data(), bare.data() + bare.size(), value);
  if (!has_digit || error != std::errc() || end != bare.data() + bare.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

bool is_infinity_or_nan(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return is_one_of(text, {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"});
}

// Columns in characters. yaml-cpp counts bytes, which differ for Chinese text. Each look-up costs the distance from the
// last one, so that a long line with many values is no problem.
class Columns {
 public:
  explicit Columns(std::string_view text) : text_(text) {
    line_starts_.push_back(0);
    for (size_t at = 0; at < text.size(); ++at)
      if (text[at] == '\n') line_starts_.push_back(at + 1);
  }

  // `line` and `bytes` from 0. The result begins with 1.
  int column(int line, int bytes) {
    if (line < 0 || bytes < 0 || static_cast<size_t>(line) >= line_starts_.size()) return std::max(bytes, 0) + 1;
    if (line != line_) {
      line_ = line;
      bytes_ = characters_ = 0;
    }
    const size_t start = line_starts_[static_cast<size_t>(line)];
    const auto begins_character = [&](int byte) {
      const size_t at = start + static_cast<size_t>(byte);
      return at >= text_.size() || (static_cast<unsigned char>(text_[at]) & 0xc0U) != 0x80U;
    };
    for (; bytes_ < bytes; ++bytes_) characters_ += begins_character(bytes_) ? 1 : 0;
    while (bytes_ > bytes) characters_ -= begins_character(--bytes_) ? 1 : 0;
    return characters_ + 1;
  }

 private:
  const std::string_view text_;
  std::vector<size_t> line_starts_;
  int line_ = 0, bytes_ = 0, characters_ = 0;
};

// Collects the events of yaml-cpp. Errors are YAML::ParserException, which read() turns into a Result.
class Builder : public YAML::EventHandler {
 public:
  Builder(Columns& columns, const std::shared_ptr<const std::string>& name, const Limits& limits)
      : columns_(columns), name_(name), limits_(limits) {}

  Document document;

  // What the document used is not left for the next ones. Each has a value at least.
  void take_from(Limits& left) const {
    left.values -= std::min(left.values, std::max<size_t>(values_, 1));
    left.expanded_bytes -= std::min(left.expanded_bytes, bytes_);
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(placed({}, mark), mark, anchor, false); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) throw YAML::ParserException(mark, "an alias stands inside the value that it names");
    charge(found->second, mark, open_.size());
    add(found->second, mark, 0, false);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    charge_bytes(text.size(), mark);
    Value value = scalar(mark, tag, text);
    add(placed(std::move(value), mark), mark, anchor, tag == kPlainTag && text == kMergeKey);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(Value::list(), mark, tag, "seq", anchor);
  }
  void OnSequenceEnd() override { end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(Value::map(), mark, tag, "map", anchor);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Merge {
    Value from;
    YAML::Mark mark;
  };
  // A list or map that has begun.
  struct Open {
    Value value;
    YAML::anchor_t anchor = 0;
    YAML::Mark mark = {};
    bool has_key = false;
    bool is_merge = false;  // The key is <<.
    std::string key = {};
    Place key_place = {};
    std::unordered_map<std::string, size_t> index = {};  // Entry of each key.
    std::vector<Merge> merges = {};
  };

  Value placed(Value value, const YAML::Mark& mark) {
    value.place = {name_, mark.line + 1, columns_.column(mark.line, mark.column)};
    return value;
  }

  static Value scalar(const YAML::Mark& mark, const std::string& tag, const std::string& text) {
    if (tag == kQuotedTag || tag == fmt::format("{}str", kStandardTags)) return Value::of_text(text);
    if (tag == kPlainTag || tag.empty()) {
      if (is_infinity_or_nan(text))
        throw YAML::ParserException(mark, fmt::format("{}: expected a finite number, as JSON has no other", text));
      return plain_scalar(text);
    }
    const Value value = plain_scalar(text);
    if (tag == fmt::format("{}int", kStandardTags) && value.kind == Kind::kInteger) return value;
    if (tag == fmt::format("{}float", kStandardTags) && value.is_number()) return Value::of_number(value.as_number());
    if (tag == fmt::format("{}bool", kStandardTags) && value.kind == Kind::kBoolean) return value;
    if (tag == fmt::format("{}null", kStandardTags) && value.is_null()) return value;
    throw YAML::ParserException(
        mark, fmt::format("the tag {} is not supported here; write the value without a tag", plain_text(tag, 80)));
  }

  void begin(Value value, const YAML::Mark& mark, const std::string& tag, std::string_view standard,
             YAML::anchor_t anchor) {
    if (!tag.empty() && tag != kPlainTag && tag != kQuotedTag && tag != fmt::format("{}{}", kStandardTags, standard)) {
      throw YAML::ParserException(
          mark, fmt::format("the tag {} is not supported here; write the value without a tag", plain_text(tag, 80)));
    }
    if (!open_.empty() && open_.back().value.is_map() && !open_.back().has_key)
      throw YAML::ParserException(mark, "a key of a map is a text, not a list or map");
    if (open_.size() >= limits_.depth) throw YAML::ParserException(mark, too_deep());
    charge_values(1, mark);
    open_.push_back({.value = placed(std::move(value), mark), .anchor = anchor, .mark = mark});
  }

  void end() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    for (Merge& merge : closed.merges) merge_into(closed, std::move(merge));
    const YAML::Mark mark = closed.mark;
    place_value(std::move(closed.value), closed.anchor, mark);
  }

  // A complete value: the next key, value or item of what is open.
  void add(Value value, const YAML::Mark& mark, YAML::anchor_t anchor, bool is_merge_key) {
    charge_values(1, mark);
    if (!open_.empty() && open_.back().value.is_map() && !open_.back().has_key) {
      Open& map = open_.back();
      map.has_key = true;
      map.is_merge = is_merge_key;
      map.key = text_of_key(value, mark);
      map.key_place = value.place;
      if (anchor != 0) keep(anchor, value, mark);
      return;
    }
    place_value(std::move(value), anchor, mark);
  }

  void place_value(Value value, YAML::anchor_t anchor, const YAML::Mark& mark) {
    if (anchor != 0) keep(anchor, value, mark);
    if (open_.empty()) {
      document.root = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.value.is_list()) {
      parent.value.items.push_back(std::move(value));
      return;
    }
    parent.has_key = false;
    if (parent.is_merge) {
      parent.merges.push_back({std::move(value), mark});
      return;
    }
    const auto [present, added] = parent.index.emplace(parent.key, parent.value.entries.size());
    if (!added) {
      document.problems.push_back(
          {parent.key_place, fmt::format("{}: given twice, first at {}; remove one of them", plain_text(parent.key, 80),
                                         parent.value.entries[present->second].place.text())});
      return;
    }
    parent.value.entries.push_back({std::move(parent.key), parent.key_place, std::move(value)});
  }

  // Adds the entries that the map itself does not have.
  void merge_into(Open& map, Merge merge) {
    std::vector<Value> sources;
    if (merge.from.is_list()) {
      sources = std::move(merge.from.items);
    } else {
      sources.push_back(std::move(merge.from));
    }
    for (Value& source : sources) {
      if (!source.is_map()) throw YAML::ParserException(merge.mark, "<<: expected a map or a list of maps");
      for (Entry& entry : source.entries) {
        if (!map.index.emplace(entry.key, map.value.entries.size()).second) continue;
        map.value.entries.push_back(std::move(entry));
      }
    }
  }

  static std::string text_of_key(const Value& key, const YAML::Mark& mark) {
    switch (key.kind) {
      case Kind::kText:
        return key.text;
      case Kind::kInteger:
        return fmt::format("{}", key.integer);
      case Kind::kBoolean:
        return key.boolean ? "true" : "false";
      case Kind::kNumber:
        return fmt::format("{}", key.number);
      case Kind::kNull:
        return "null";
      case Kind::kList:
      case Kind::kMap:
        break;
    }
    throw YAML::ParserException(mark, "a key of a map is a text, not a list or map");
  }

  void keep(YAML::anchor_t anchor, const Value& value, const YAML::Mark& mark) {
    charge(value, mark, open_.size());
    anchored_[anchor] = value;
  }

  std::string too_deep() const { return fmt::format("more than {} lists and maps in each other", limits_.depth); }

  void charge_values(size_t values, const YAML::Mark& mark) {
    values_ += values;
    if (values_ > limits_.values) {
      throw YAML::ParserException(
          mark, fmt::format("more than {} values, counted with what aliases stand for", limits_.values));
    }
  }
  void charge_bytes(size_t bytes, const YAML::Mark& mark) {
    bytes_ += bytes;
    if (bytes_ > limits_.expanded_bytes) {
      throw YAML::ParserException(
          mark, fmt::format("more than {} bytes of text, counted with what aliases stand for", limits_.expanded_bytes));
    }
  }
  // `depth`: of the lists and maps around the value.
  void charge(const Value& value, const YAML::Mark& mark, size_t depth) {
    if (depth > limits_.depth) throw YAML::ParserException(mark, too_deep());
    charge_values(1, mark);
    charge_bytes(value.text.size(), mark);
    for (const Value& item : value.items) charge(item, mark, depth + 1);
    for (const Entry& entry : value.entries) {
      charge_bytes(entry.key.size(), mark);
      charge(entry.value, mark, depth + 1);
    }
  }

  Columns& columns_;
  const std::shared_ptr<const std::string> name_;
  const Limits limits_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Value> anchored_;
  size_t values_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

std::string Problem::text() const {
  const std::string where = place.text();
  return where.empty() ? what : fmt::format("{} ({})", what, where);
}

Value plain_scalar(std::string_view text) {
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return {};
  if (is_one_of(text, {"true", "True", "TRUE"})) return Value::of_boolean(true);
  if (is_one_of(text, {"false", "False", "FALSE"})) return Value::of_boolean(false);
  if (const auto integer = plain_integer(text)) return Value::of_integer(*integer);
  if (const auto number = plain_number(text)) return Value::of_number(*number);
  return Value::of_text(std::string(text));
}

namespace {

// The documents of a file; the one after `documents_max` is a problem.
tl::expected<std::vector<Document>, Problem> read_up_to(std::string_view text, std::string_view name,
                                                        const Limits& limits, size_t documents_max) {
  const auto file = std::make_shared<const std::string>(name);
  const auto problem = [&](std::string what, int line, int column) {
    return tl::unexpected(Problem{{file, line, column}, std::move(what)});
  };
  if (text.size() > limits.bytes) {
    return problem(fmt::format("{}: the file has {} bytes; the limit is {}", name, text.size(), limits.bytes), 0, 0);
  }
  Columns columns(text);
  int line = 1;
  size_t line_start = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_sequence(text, at);
    if (length == 0) {
      return problem("expected UTF-8, got other bytes", line,
                     columns.column(line - 1, static_cast<int>(at - line_start)));
    }
    if (text[at] == '\n') {
      ++line;
      line_start = at + 1;
    }
    at += length;
  }
  std::vector<Document> documents;
  Limits left = limits;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (true) {
      Builder builder(columns, file, left);
      if (!parser.HandleNextDocument(builder)) break;
      if (documents.size() == documents_max) {
        const Place& place = builder.document.root.place;
        return problem("expected one document; a second one begins here", std::max(place.line, 1),
                       std::max(place.column, 1));
      }
      builder.take_from(left);
      documents.push_back(std::move(builder.document));
    }
  } catch (const YAML::Exception& wrong) {
    return problem(fmt::format("not valid YAML: {}", wrong.msg), std::max(wrong.mark.line, 0) + 1,
                   columns.column(wrong.mark.line, wrong.mark.column));
  }
  return documents;
}

}  // namespace

tl::expected<Document, Problem> read(std::string_view text, std::string_view name, const Limits& limits) {
  auto documents = read_up_to(text, name, limits, 1);
  if (!documents) return tl::unexpected(std::move(documents).error());
  return documents->empty() ? Document() : std::move(documents->front());
}

tl::expected<std::vector<Document>, Problem> read_documents(std::string_view text, std::string_view name,
                                                            const Limits& limits) {
  return read_up_to(text, name, limits, limits.values);
}

}  // namespace volador::yaml
