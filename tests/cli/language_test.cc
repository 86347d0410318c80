#include "runtime/language/language.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "cli/render/terminal.h"
#include "runtime/language/catalogue.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;

std::string source_text(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Literals that the sources pass to the catalogue: the argument of tr( or fill(, or after the language in
// fill_translated(.
std::set<std::string> texts_of_sources() {
  std::set<std::string> texts;
  const std::regex call(
      R"re(\b(?:tr|fill|translated|fill_translated)\((?:[a-z_.()]*language[()]*, )?((?:"(?:[^"\\]|\\.)*"\s*)+))re");
  std::vector<fs::path> files{"tune/display/progress_table.cc", "experiments/search/search_preview.cc"};
  for (const auto& entry : fs::recursive_directory_iterator("cli")) {
    if (entry.path().extension() == ".cc") files.push_back(entry.path());
  }
  for (const fs::path& file : files) {
    const std::string source = source_text(file);
    for (std::sregex_iterator at(source.begin(), source.end(), call), end; at != end; ++at) {
      const std::string literals = (*at)[1];
      std::string text;
      bool inside = false;
      for (size_t i = 0; i < literals.size(); ++i) {
        if (literals[i] == '"') {
          inside = !inside;
        } else if (inside && literals[i] == '\\') {
          const char escape = literals[++i];
          text += escape == 'n' ? '\n' : escape;
        } else if (inside) {
          text += literals[i];
        }
      }
      texts.insert(text);
    }
  }
  return texts;
}

std::vector<std::string> placeholders(const std::string& text) {
  std::vector<std::string> found;
  const std::regex placeholder(R"(\{[0-9]*\})");
  for (std::sregex_iterator at(text.begin(), text.end(), placeholder), end; at != end; ++at) found.push_back(at->str());
  return found;
}

TEST(Catalogue, HasEveryTextOfTheSources) {
  const std::set<std::string> texts = texts_of_sources();
  EXPECT_GT(texts.size(), 80u) << "the texts were not found";
  const auto json = nlohmann::json::parse(catalogue_messages());
  for (const std::string& text : texts) {
    if (text == "#" || text == "git") continue;
    EXPECT_TRUE(json["messages"].contains(text) || json["page"].contains(text))
        << "runtime/language/zh.json lacks \"" << text << '"';
  }
}

TEST(Catalogue, TranslationsHaveThePlaceholdersOfTheirText) {
  const auto json = nlohmann::json::parse(catalogue_messages());
  for (const auto& [english, chinese] : json["messages"].items()) {
    EXPECT_EQ(placeholders(english).size(), placeholders(chinese.get<std::string>()).size()) << english;
    EXPECT_FALSE(chinese.get<std::string>().empty()) << english;
  }
}

TEST(Catalogue, SharesTermsWithThePage) {
  const std::string english = source_text("dashboard/web/src/i18n/en.ts");
  const std::string chinese = source_text("dashboard/web/src/i18n/zh.ts");
  const auto json = nlohmann::json::parse(catalogue_messages());
  for (const auto& [text, key] : json["page"].items()) {
    const std::string name = "\"" + key.get<std::string>() + "\": \"";
    EXPECT_NE(english.find(name), std::string::npos) << key;
    const size_t at = chinese.find(name);
    ASSERT_NE(at, std::string::npos) << key;
    const std::string term = chinese.substr(at + name.size(), chinese.find('"', at + name.size()) - at - name.size());
    EXPECT_EQ(translated(Language::kChinese, text), term) << "the terminal and the page use different words";
  }
}

TEST(Catalogue, TranslatesWordsAsThePageDoes) {
  EXPECT_EQ(translated_word(Language::kChinese, "running"), "运行中");
  EXPECT_EQ(translated_word(Language::kEnglish, "running"), "running");
  EXPECT_EQ(translated_word(Language::kChinese, "no such word"), "no such word");
}

TEST(LanguageOf, FollowsTheLocaleAsPosixOrdersIt) {
  EXPECT_EQ(language_of({}), Language::kEnglish);
  EXPECT_EQ(language_of({.lang = "zh_CN.UTF-8"}), Language::kChinese);
  EXPECT_EQ(language_of({.lang = "zh_CN.utf8"}), Language::kChinese);
  EXPECT_EQ(language_of({.lc_all = "C", .lang = "zh_CN.UTF-8"}), Language::kEnglish) << "LC_ALL wins";
  EXPECT_EQ(language_of({.lc_messages = "zh_CN.UTF-8", .lang = "en_US.UTF-8"}), Language::kChinese);
  EXPECT_EQ(language_of({.lc_all = "", .lang = "zh_SG.UTF-8@x"}), Language::kChinese);
  EXPECT_EQ(language_of({.lang = "zh_CN.GBK"}), Language::kEnglish) << "a terminal that cannot show UTF-8";
  EXPECT_EQ(language_of({.lang = "zh_CN"}), Language::kEnglish);
  EXPECT_EQ(language_of({.lang = "zha_CN.UTF-8"}), Language::kEnglish);
}

TEST(LanguageOf, VoladorLangWins) {
  EXPECT_EQ(language_of({.volador_lang = "en", .lc_all = "zh_CN.UTF-8"}), Language::kEnglish);
  EXPECT_EQ(language_of({.volador_lang = "zh", .lc_all = "C"}), Language::kChinese);
  EXPECT_EQ(language_of({.volador_lang = "fr", .lang = "zh_CN.UTF-8"}), Language::kChinese)
      << "an unknown one has no effect";
}

TEST(LineColumns, FollowColumnsThenTheTerminal) {
  EXPECT_EQ(line_columns(true, 132, ""), 132u);
  EXPECT_EQ(line_columns(true, 0, ""), 80u);
  EXPECT_EQ(line_columns(true, 132, "90"), 90u);
  EXPECT_EQ(line_columns(false, 0, "90"), 90u);
  EXPECT_EQ(line_columns(false, 0, ""), 0u) << "a pipe gets everything";
  EXPECT_EQ(line_columns(false, 0, "ninety"), 0u);
  EXPECT_EQ(line_columns(true, 3, "1"), 20u);
}

TEST(IsYes, TakesOnlyAClearAnswer) {
  for (const char* answer : {"y", "Y", " yes\r\n", "是"}) EXPECT_TRUE(is_yes(answer)) << answer;
  for (const char* answer : {"", "\n", "n", "no", "yesterday"}) EXPECT_FALSE(is_yes(answer)) << answer;
}

}  // namespace
}  // namespace volador::cli
