// Language of terminal output: English or simplified Chinese. Texts are keyed by their English form.
#pragma once
#if __has_include(<fmt/format.h>)  // Programs are compiled without fmt if it is not installed.
#include <fmt/format.h>
#endif
#include <string>
#include <string_view>

namespace volador {

enum class Language : uint8_t { kEnglish, kChinese };

// Variables that select a language. Empty counts as unset.
struct LanguageVariables {
  std::string_view volador_lang;  // VOLADOR_LANG: "en" or "zh"; other values have no effect.
  std::string_view lc_all;
  std::string_view lc_messages;
  std::string_view lang;

  static LanguageVariables of_this_process();
};

// VOLADOR_LANG if set; otherwise the first set variable of LC_ALL, LC_MESSAGES and LANG, as in POSIX. A locale is
// Chinese if its language is zh and its code set is UTF-8: the texts are UTF-8, which a terminal with another code set
// cannot show.
Language language_of(const LanguageVariables& variables);

// Returns the translation, or the English text if there is none.
std::string_view translated(Language language, std::string_view english);
// Translates a word of the cluster, such as the state "running".
std::string_view translated_word(Language language, std::string_view word);
#ifdef FMT_VERSION
// Fills the placeholders with fmt. A translation may reorder them: "{1} of {0}".
template <class... Args>
std::string fill_translated(Language language, std::string_view english, const Args&... args) {
  return fmt::vformat(fmt::string_view(translated(language, english).data(), translated(language, english).size()),
                      fmt::make_format_args(args...));
}
#endif
}  // namespace volador
