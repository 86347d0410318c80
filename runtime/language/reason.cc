#include "runtime/language/reason.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "runtime/language/catalogue.h"
#include "runtime/result.h"
#include "runtime/utf8.h"

namespace volador {

struct Reason::Sentence {
  std::string key;
  std::string english;
  std::string chinese;
  size_t places = 0;
};

namespace {

constexpr size_t kJsonMost = 64 << 10;
constexpr int kDepthMost = 32;  // Nesting of reasons; the head creates about 15 levels.

using Json = nlohmann::json;

// A placeholder: its number, its forms ("actor|actors", empty: none) and where the text continues after it.
struct Place {
  size_t number = 0;
  std::string_view forms;
  size_t end = 0;
};
Place place_at(std::string_view text, size_t at) {
  Place place;
  place.end = std::min(text.find('}', at), text.size() - 1) + 1;
  const std::string_view inside = text.substr(at + 1, place.end - at - 2);
  const size_t bar = std::min(inside.find('|'), inside.size());
  std::from_chars(inside.data(), inside.data() + bar, place.number);
  if (bar < inside.size()) place.forms = inside.substr(bar + 1);
  return place;
}

using Sentences = std::unordered_map<std::string_view, std::unique_ptr<Reason::Sentence>>;
const Sentences& sentences() {
  static const Sentences all = [] {
    Sentences made;
    const auto json = Json::parse(catalogue_reasons());
    for (const auto& [key, texts] : json.items()) {
      auto sentence = std::make_unique<Reason::Sentence>(
          Reason::Sentence{.key = key, .english = texts.at("en"), .chinese = texts.at("zh")});
      const std::string& text = sentence->english;
      for (size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1)) {
        sentence->places = std::max(sentence->places, place_at(text, at).number + 1);
      }
      const std::string_view name = sentence->key;
      made.emplace(name, std::move(sentence));
    }
    return made;
  }();
  return all;
}

const Reason::Sentence* find_sentence(std::string_view key) {
  const auto found = sentences().find(key);
  return found == sentences().end() ? nullptr : found->second.get();
}

std::string amounts_text(const ResourceSet& amounts, Language language) {
  if (language == Language::kEnglish) return to_string(amounts);
  if (amounts.empty()) return "无";
  std::string text;
  for (const auto& [name, amount] : amounts.entries()) {
    if (!text.empty()) text += "，";
    if (name == "memory") {
      text += format_bytes(amount) + " 内存";
    } else {
      text += fmt::format("{} {}", format_amount(amount), name == "cpus" ? "CPU" : name == "gpus" ? "GPU" : name);
    }
  }
  return text;
}

std::string argument_text(const Reason::Argument& argument, Language language) {
  if (const auto* text = std::get_if<std::string>(&argument.value)) return *text;
  if (const auto* number = std::get_if<int64_t>(&argument.value)) return std::to_string(*number);
  if (const auto* of = std::get_if<Reason::Argument::Word>(&argument.value))
    return std::string(translated_word(language, of->word));
  if (const auto* amounts = std::get_if<ResourceSet>(&argument.value)) return amounts_text(*amounts, language);
  return std::get<Reason>(argument.value).text(language);
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t length = utf8_sequence(text, at);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[at];
    } else if (byte < 0x20) {
      out += fmt::format("\\u{:04x}", byte);
    } else if (length == 0) {
      out += "\ufffd";
    } else {
      out += text.substr(at, length);
    }
    at += std::max<size_t>(1, length);
  }
  out += '"';
}

void append_argument(std::string& out, const Reason::Argument& argument) {
  if (const auto* text = std::get_if<std::string>(&argument.value)) return append_string(out, *text);
  if (const auto* number = std::get_if<int64_t>(&argument.value)) {
    out += std::to_string(*number);
  } else if (const auto* of = std::get_if<Reason::Argument::Word>(&argument.value)) {
    out += R"({"word":)";
    append_string(out, of->word);
    out += '}';
  } else if (const auto* amounts = std::get_if<ResourceSet>(&argument.value)) {
    out += R"({"amounts":{)";
    bool is_first = true;
    for (const auto& [name, amount] : amounts->entries()) {
      if (!is_first) out += ',';
      is_first = false;
      append_string(out, name);
      out += ':';
      out += name == "memory" ? std::to_string(amount) : format_amount(amount);
    }
    out += "}}";
  } else {
    const auto& inner = std::get<Reason>(argument.value);
    const std::string json = inner.to_json();
    json.empty() ? append_string(out, inner.text()) : void(out += json);
  }
}

std::optional<Reason::Argument> read_argument(const Json& json, int depth);

std::optional<Reason> read_reason(const Json& json, int depth) {
  if (depth > kDepthMost || !json.is_array() || json.empty() || !json.front().is_string()) return std::nullopt;
  const auto& key = json.front().get_ref<const std::string&>();
  const Reason::Sentence* sentence = find_sentence(key);
  if (sentence == nullptr || json.size() - 1 != sentence->places) return std::nullopt;
  const size_t count = json.size() - 1;
  std::shared_ptr<Reason::Argument[]> arguments;
  if (count > 0) arguments = std::make_shared<Reason::Argument[]>(count);
  for (size_t at = 0; at < count; ++at) {
    auto argument = read_argument(json[at + 1], depth);
    if (!argument) return std::nullopt;
    arguments[at] = std::move(*argument);
  }
  return Reason::of(key, std::move(arguments), count);
}

std::optional<Reason::Argument> read_argument(const Json& json, int depth) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_array()) {
    auto reason = read_reason(json, depth + 1);
    if (!reason) return std::nullopt;
    return std::move(*reason);
  }
  if (!json.is_object() || json.size() != 1) return std::nullopt;
  const Json& value = json.front();
  if (json.contains("word") && value.is_string()) return cluster_word(value.get<std::string>());
  if (!json.contains("amounts") || !value.is_object()) return std::nullopt;
  ResourceSet amounts;
  for (const auto& [name, amount] : value.items()) {
    const double most = name == "memory" ? 0x1p60 : 0x1p40;
    if (!amount.is_number() || amount.get<double>() < 0 || amount.get<double>() > most) return std::nullopt;
    amounts.set(name, name == "memory" ? amount.get<int64_t>() : std::llround(amount.get<double>() * kUnit));
  }
  return amounts;
}

}  // namespace

Reason Reason::said(std::string text) {
  Reason reason;
  if (text.empty()) return reason;
  auto argument = std::make_shared<Argument[]>(1);
  argument[0] = Argument(std::move(text));
  reason.arguments_ = std::move(argument);
  return reason;
}

Reason Reason::of(std::string_view key, std::shared_ptr<const Argument[]> arguments, size_t count) {
  Reason reason;
  reason.sentence_ = find_sentence(key);
  VOLADOR_CHECK(reason.sentence_ != nullptr && reason.sentence_->places == count, std::string(key));
  reason.arguments_ = std::move(arguments);
  return reason;
}

std::optional<Reason> Reason::from_json(std::string_view json) {
  if (json.size() > kJsonMost) return std::nullopt;
  // Limits the nesting, so that parsing cannot overflow the stack.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 2 * kDepthMost; };
  const Json read = Json::parse(json, shallow, /*allow_exceptions=*/false);
  return read.is_discarded() ? std::nullopt : read_reason(read, 0);
}

std::string Reason::text(Language language) const {
  if (empty()) return {};
  if (sentence_ == nullptr) return argument_text(arguments_[0], language);
  const std::string_view form = language == Language::kChinese ? sentence_->chinese : sentence_->english;
  std::string out;
  for (size_t at = 0; at < form.size();) {
    const size_t brace = std::min(form.find('{', at), form.size());
    out += form.substr(at, brace - at);
    if (brace == form.size()) break;
    const Place place = place_at(form, brace);
    at = place.end;
    const Argument& argument = arguments_[static_cast<std::ptrdiff_t>(place.number)];
    if (place.forms.empty()) {
      out += argument_text(argument, language);
      continue;
    }
    const auto* number = std::get_if<int64_t>(&argument.value);
    const size_t bar = std::min(place.forms.find('|'), place.forms.size());
    out += number != nullptr && *number == 1 ? place.forms.substr(0, bar)
                                             : place.forms.substr(std::min(bar + 1, place.forms.size()));
  }
  return out;
}

std::string Reason::to_json() const {
  if (sentence_ == nullptr) return {};
  std::string out = "[";
  append_string(out, sentence_->key);
  for (size_t at = 0; at < sentence_->places; ++at) {
    out += ',';
    append_argument(out, arguments_[static_cast<std::ptrdiff_t>(at)]);
  }
  return out + "]";
}

Reason Reason::with_sentences(std::span<const std::pair<std::string_view, std::string_view>> changes) const {
  if (sentence_ == nullptr) return *this;
  std::string_view key = sentence_->key;
  for (const auto& [from, to] : changes) {
    if (key == from) {
      key = to;
      break;
    }
  }
  const size_t places = sentence_->places;
  std::shared_ptr<Argument[]> arguments;
  if (places > 0) arguments = std::make_shared<Argument[]>(places);
  for (size_t at = 0; at < places; ++at) {
    const Argument& argument = arguments_[static_cast<std::ptrdiff_t>(at)];
    const auto* inner = std::get_if<Reason>(&argument.value);
    arguments[static_cast<std::ptrdiff_t>(at)] = inner == nullptr ? argument : Argument(inner->with_sentences(changes));
  }
  return of(key, std::move(arguments), places);
}

Reason reason_of(const Error& error) {
  auto known = error.why.empty() ? std::nullopt : Reason::from_json(error.why);
  return known ? std::move(*known) : Reason::said(error.message);
}

Reason and_also(Reason first, Reason second) {
  if (first.empty()) return second;
  if (second.empty()) return first;
  return reason("joined.clauses", std::move(first), std::move(second));
}

Reason because(Reason what, Reason why) {
  if (why.empty()) return what;
  if (what.empty()) return why;
  return reason("joined.because", std::move(what), std::move(why));
}

}  // namespace volador
