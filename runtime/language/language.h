// The language of what people read in a terminal: English, or simplified Chinese. A text is named by its English form.
#pragma once
#if __has_include(<fmt/format.h>)  // Programs are compiled without fmt where it is not installed.
#include <fmt/format.h>
#endif
#include <string>
#include <string_view>

namespace volador {

enum class Language : uint8_t { kEnglish, kChinese };

// The variables that choose a language. Empty counts as unset.
struct LanguageVariables {
  std::string_view volador_lang;  // VOLADOR_LANG: "en" or "zh"; other values have no effect.
  std::string_view lc_all;
  std::string_view lc_messages;
  std::string_view lang;

  static LanguageVariables of_this_process();
};

// VOLADOR_LANG where it is set; else the first of LC_ALL, LC_MESSAGES and LANG that is set, as POSIX orders them. A locale counts as Chinese
// where its language is zh and its code set is UTF-8: the texts are UTF-8, and a terminal of another code set cannot show them.
Language language_of(const LanguageVariables& variables);

// The text in the language; the English one where the catalogue has no other.
std::string_view translated(Language language, std::string_view english);
// A word of the cluster, such as the state "running".
std::string_view translated_word(Language language, std::string_view word);
#ifdef FMT_VERSION
// The text with its placeholders filled, by the rules of fmt. A translation may order the placeholders anew: "{1} of {0}".
template <class... Args>
std::string fill_translated(Language language, std::string_view english, const Args&... args) {
  return fmt::vformat(fmt::string_view(translated(language, english).data(), translated(language, english).size()),
                      fmt::make_format_args(args...));
}
#endif
}  // namespace volador
