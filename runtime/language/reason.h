// Explanations as data: a sentence of the catalogue (dashboard/web/src/i18n/reasons.json) and its arguments, so that
// each reader can show it in their language.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "runtime/language/language.h"
#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador {

// In a sentence, `{0}` is the first argument, and `{0|actor|actors}` is "actor" if the first argument is the number 1,
// otherwise "actors".
class Reason {
 public:
  struct Argument;
  struct Sentence;

  Reason() = default;  // Empty reason.
  // Text that is not translated: errors of user code, names.
  static Reason said(std::string text);
  // As said(): for plain texts of user-defined schedulers and trainables.
  Reason(std::string text) : Reason(said(std::move(text))) {}
  Reason(const char* text) : Reason(said(text)) {}
  // Aborts if the catalogue has no such sentence, or one with other placeholders.
  static Reason of(std::string_view key, std::shared_ptr<const Argument[]> arguments, size_t count);
  // Parses the output of to_json. Nothing: not a reason, or one of a newer version; use its text instead.
  static std::optional<Reason> from_json(std::string_view json);

  bool empty() const { return sentence_ == nullptr && arguments_ == nullptr; }
  std::string text(Language language = Language::kEnglish) const;
  // ["waits.in_use_only", {"amounts": {"cpus": 1}}, "1", "1"]: key and arguments, each a text, an integer, {"word": …},
  // {"amounts": …} or a reason. Empty if the text suffices: for said() and an empty reason.
  std::string to_json() const;

  // Returns a copy with some sentences replaced, also in arguments. Each pair has the keys of a sentence and its
  // replacement, which has the same placeholders.
  Reason with_sentences(std::span<const std::pair<std::string_view, std::string_view>> changes) const;

  // The English text.
  operator std::string() const { return text(); }
  friend std::string operator+(std::string text, const Reason& reason) { return std::move(text) + reason.text(); }
  friend std::ostream& operator<<(std::ostream& out, const Reason& reason) { return out << reason.text(); }
  // Compares the texts, because a reason of an earlier version may be plain text.
  friend bool operator==(const Reason& a, const Reason& b) { return a.text() == b.text(); }

 private:
  const Sentence* sentence_ = nullptr;           // Null: the argument, if any, is the text.
  std::shared_ptr<const Argument[]> arguments_;  // Shared by copies, as of a trial, its verdict and report. Null: none.
};

// Argument of a sentence.
struct Reason::Argument {
  // A word of the cluster, such as the state "pending"; see translated_word.
  struct Word {
    std::string word;
  };

  Argument() = default;
  Argument(std::string text) : value(std::move(text)) {}
  Argument(std::string_view text) : value(std::string(text)) {}
  Argument(const char* text) : value(std::string(text)) {}
  template <std::integral Number>
  Argument(Number number) : value(static_cast<int64_t>(number)) {}
  Argument(Word word) : value(std::move(word)) {}
  Argument(ResourceSet amounts) : value(std::move(amounts)) {}
  Argument(Reason reason) : value(std::move(reason)) {}

  std::variant<std::string, int64_t, Word, ResourceSet, Reason> value;
};

// reason("waits.reserved", node_name, amounts)
template <class... Arguments>
Reason reason(std::string_view key, Arguments&&... arguments) {
  constexpr size_t kCount = sizeof...(Arguments);
  std::shared_ptr<Reason::Argument[]> all;
  if constexpr (kCount > 0) {
    all = std::make_shared<Reason::Argument[]>(kCount);
    size_t at = 0;
    ((all[at++] = Reason::Argument(std::forward<Arguments>(arguments))), ...);
  }
  return Reason::of(key, std::move(all), kCount);
}
inline Reason::Argument cluster_word(std::string_view of) { return Reason::Argument::Word{std::string(of)}; }

// "first; second"; the other one if one is empty.
Reason and_also(Reason first, Reason second);
// "what: why"; `what` if `why` is empty.
Reason because(Reason what, Reason why);

// Reason of a message: its field `why` if the sentence is known, otherwise the text of `reason`.
template <class Row>
Reason reason_of(const Row& row) {
  auto known = row.why().empty() ? std::nullopt : Reason::from_json(row.why());
  return known ? std::move(*known) : Reason::said(row.reason());
}
// Reason of an error: its data if present, otherwise its message.
Reason reason_of(const Error& error);
// Error with this message.
inline Error error_of(ErrorCode code, const Reason& why) { return {code, why.text(), why.to_json()}; }
// Sets both fields.
template <class Row>
void set_reason(Row& row, const Reason& reason) {
  row.set_reason(reason.text());
  row.set_why(reason.to_json());
}

}  // namespace volador
#ifdef FMT_VERSION
template <>
struct fmt::formatter<volador::Reason> : fmt::formatter<std::string_view> {
  auto format(const volador::Reason& reason, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(reason.text(), context);
  }
};
#endif
