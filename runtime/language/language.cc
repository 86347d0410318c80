#include "runtime/language/language.h"

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/language/catalogue.h"

namespace volador {
namespace {

using Texts = std::map<std::string, std::string, std::less<>>;

std::string_view language_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool is_chinese_utf8(std::string_view locale) {
  if (!locale.starts_with("zh")) return false;
  const std::string_view rest = locale.substr(2);
  if (!rest.empty() && rest[0] != '_' && rest[0] != '.' && rest[0] != '@') return false;
  const size_t dot = locale.find('.');
  if (dot == std::string_view::npos) return false;  // The default code set is GB2312.
  std::string code_set;
  for (const char c : locale.substr(dot + 1, locale.find('@') - dot - 1)) {
    if (c != '-') code_set += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return code_set == "utf8";
}

// One `"col.name": "…",` per line. The texts are JavaScript strings with the escapes \" and \\ only.
Texts page_texts() {
  Texts texts;
  std::string_view left = catalogue_page();
  while (!left.empty()) {
    const size_t end = std::min(left.find('\n'), left.size());
    const std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    const size_t key = line.find('"');
    const size_t key_end = line.find("\": \"", key + 1);
    const size_t text_end = line.rfind('"');
    if (key == std::string_view::npos || key_end == std::string_view::npos || text_end < key_end + 4) continue;
    texts.emplace(line.substr(key + 1, key_end - key - 1), line.substr(key_end + 4, text_end - key_end - 4));
  }
  return texts;
}

// Keyed by the English text; words by "word." and the word.
const Texts& chinese() {
  static const Texts texts = [] {
    Texts made = page_texts();
    const auto json = nlohmann::json::parse(catalogue_messages());
    Texts all;
    for (const auto& [english, key] : json["page"].items()) {
      if (const auto found = made.find(key.get<std::string>()); found != made.end())
        all.emplace(english, found->second);
    }
    const auto events = nlohmann::json::parse(catalogue_events());
    for (const auto& [english, text] : events.items()) all.emplace(english, text.get<std::string>());
    for (const auto& [english, text] : json["messages"].items()) all.insert_or_assign(english, text.get<std::string>());
    for (auto& [key, text] : made) {
      if (key.starts_with("word.")) all.emplace(key, std::move(text));
    }
    return all;
  }();
  return texts;
}

}  // namespace

LanguageVariables LanguageVariables::of_this_process() {
  return {.volador_lang = language_variable("VOLADOR_LANG"),
          .lc_all = language_variable("LC_ALL"),
          .lc_messages = language_variable("LC_MESSAGES"),
          .lang = language_variable("LANG")};
}

Language language_of(const LanguageVariables& variables) {
  if (variables.volador_lang == "zh") return Language::kChinese;
  if (variables.volador_lang == "en") return Language::kEnglish;
  for (const std::string_view locale : {variables.lc_all, variables.lc_messages, variables.lang}) {
    if (!locale.empty()) return is_chinese_utf8(locale) ? Language::kChinese : Language::kEnglish;
  }
  return Language::kEnglish;
}

std::string_view translated(Language language, std::string_view english) {
  if (language == Language::kEnglish) return english;
  const auto found = chinese().find(english);
  return found == chinese().end() ? english : std::string_view(found->second);
}

std::string_view translated_word(Language language, std::string_view word) {
  if (language == Language::kEnglish) return word;
  const auto found = chinese().find(fmt::format("word.{}", word));
  return found == chinese().end() ? word : std::string_view(found->second);
}

}  // namespace volador
