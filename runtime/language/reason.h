// Why something is as it is, as data: a sentence of the catalogue (dashboard/web/src/i18n/reasons.json) and what fills its places. Each reader
// says it in its own language.
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

// In a sentence of the catalogue `{0}` stands for the first argument, and `{0|actor|actors}` for "actor" where the first argument is the number
// 1, else for "actors".
class Reason {
 public:
  struct Argument;
  struct Sentence;

  Reason() = default;  // Says nothing.
  // Words that stay as they are in every language: errors of user code, names.
  static Reason said(std::string text);
  // The same: a scheduler or a trainable of the user gives a plain text.
  Reason(std::string text) : Reason(said(std::move(text))) {}
  Reason(const char* text) : Reason(said(text)) {}
  // Aborts where the catalogue has no such sentence, or one with other places.
  static Reason of(std::string_view key, std::shared_ptr<const Argument[]> arguments, size_t count);
  // As to_json makes it. Nothing: it is no reason, or one of a newer Volador; its text is beside it.
  static std::optional<Reason> from_json(std::string_view json);

  bool empty() const { return sentence_ == nullptr && arguments_ == nullptr; }
  std::string text(Language language = Language::kEnglish) const;
  // ["waits.in_use_only", {"amounts": {"cpus": 1}}, "1", "1"]: key and arguments, each a text, an integer, {"word": …}, {"amounts": …} or a reason.
  // Empty where the text says as much: said() and a reason that says nothing.
  std::string to_json() const;

  // The same with other sentences in place of some, in arguments too. A pair: the key of a sentence and of that which takes its place, with
  // the same places.
  Reason with_sentences(std::span<const std::pair<std::string_view, std::string_view>> changes) const;

  // Its English text, wherever a text is wanted.
  operator std::string() const { return text(); }
  friend std::string operator+(std::string text, const Reason& reason) { return std::move(text) + reason.text(); }
  friend std::ostream& operator<<(std::ostream& out, const Reason& reason) { return out << reason.text(); }
  // Whether they say the same: one of an earlier Volador may be a text.
  friend bool operator==(const Reason& a, const Reason& b) { return a.text() == b.text(); }

 private:
  const Sentence* sentence_ = nullptr;  // Null: the argument, if any, is the text.
  std::shared_ptr<const Argument[]> arguments_;  // Shared by copies: a trial, its verdict and its report have the same. Null: none.
};

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

// "first; second"; the one that says something, where the other says nothing.
Reason and_also(Reason first, Reason second);
// "what: why"; `what` where there is no why.
Reason because(Reason what, Reason why);

// The reason of a message: its field `why` where this Volador knows the sentence, else the text of `reason`.
template <class Row>
Reason reason_of(const Row& row) {
  auto known = row.why().empty() ? std::nullopt : Reason::from_json(row.why());
  return known ? std::move(*known) : Reason::said(row.reason());
}
// The message of an error, as data where it has that.
Reason reason_of(const Error& error);
// An error whose message this is.
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
