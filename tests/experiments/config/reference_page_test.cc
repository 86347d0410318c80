// The tables of docs/experiment-config.md are those of the schema. With VOLADOR_WRITE_REFERENCE=1 the test writes them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "experiments/config/sanity.h"
#include "experiments/config/schema.h"

namespace volador::experiments {
namespace {

const std::filesystem::path kPage = "docs/experiment-config.md";
constexpr const char* kBegin =
    "<!-- The tables below are written by tests/experiments/config/reference_page_test.cc. -->\n";

bool has_fields(const Type& type) { return !type.fields.empty() || !type.variants.empty(); }

std::string escaped(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string type_text(const Type& type) {
  if (type.shape == Shape::kList && type.item->shape == Shape::kObject) return "a list of maps";
  if (type.shape == Shape::kList && type.item->shape != Shape::kAny)
    return fmt::format("a list, each {}", expectation(*type.item));
  return expectation(type);
}

std::string default_text(const Field& field) {
  if (field.need == Need::kRequired) return "required";
  if (field.need == Need::kEventually && field.initial == "null") return "required";
  return "`" + field.initial + "`";
}

std::string row(const Field& field) {
  std::string meaning = field.help;
  if (field.effect == Effect::kUnused) meaning += " Accepted, not used.";
  if (field.effect == Effect::kDropped) meaning += " Accepted, no effect.";
  if (!field.aliases.empty())
    meaning += fmt::format(" Also read from `{}`, with a warning.", fmt::join(field.aliases, "`, `"));
  for (const auto& [misspelled, choice] : field.type->choice_aliases)
    meaning += fmt::format(" `{}` is read as `{}`, with a warning.", misspelled, choice);
  return fmt::format("| `{}` | {} | {} | {} |\n", field.key, escaped(type_text(*field.type)),
                     escaped(default_text(field)), escaped(meaning));
}

std::string table(const std::vector<Field>& fields) {
  std::string text = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const Field& field : fields) text += row(field);
  return text;
}

// Tables of the objects below, each after the one that names it.
void add_tables(const std::vector<Field>& fields, std::string& text);

void add_table(const Type& type, std::string& text) {
  if (!has_fields(type) || type.name.empty()) return;
  text += fmt::format("\n## `{}`\n\n", type.name) + table(type.fields);
  for (const Variant& variant : type.variants) {
    text += fmt::format("\n### `{}: {}`\n\n", type.variant_key, variant.name) + table(variant.fields);
    if (variant.is_open) text += "\nOther keys are kept for the program that runs the search.\n";
  }
  add_tables(type.fields, text);
}

void add_tables(const std::vector<Field>& fields, std::string& text) {
  for (const Field& field : fields) {
    const Type& type = field.type->shape == Shape::kList ? *field.type->item : *field.type;
    if (type.shape == Shape::kHyperparameters) {
      text +=
          "\n## `hyperparameters`\n\nEach key is a name. A map without the key `type` nests hyperparameters; any other "
          "value without it is a constant.\n";
      for (const Variant& kind : hyperparameter_types())
        text += fmt::format("\n### `type: {}`\n\n", kind.name) + table(kind.fields);
      continue;
    }
    add_table(type, text);
  }
}

std::string tables() {
  const Type& root = experiment_type();
  std::string text = "\n## Top level\n\n" + table(root.fields);
  add_tables(root.fields, text);
  return text;
}

TEST(ReferencePage, HasTheTablesOfTheSchema) {
  std::ifstream stream(kPage);
  const std::string page{std::istreambuf_iterator<char>(stream), {}};
  const size_t begin = page.find(kBegin);
  ASSERT_NE(begin, std::string::npos) << kPage << " has no line " << kBegin;
  const std::string expected = page.substr(0, begin) + kBegin + tables();
  if (std::getenv("VOLADOR_WRITE_REFERENCE") != nullptr) std::ofstream(kPage) << expected;
  EXPECT_EQ(page, expected) << "run tests_experiment_config with VOLADOR_WRITE_REFERENCE=1 and commit the page";
}

TEST(ReferencePage, DescribesEachKeyInASentence) {
  for (const Field& field : experiment_type().fields) {
    EXPECT_FALSE(field.help.empty()) << field.key;
    EXPECT_EQ(field.help.back(), '.') << field.key;
  }
}

}  // namespace
}  // namespace volador::experiments
