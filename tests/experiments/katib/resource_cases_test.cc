#include <charconv>
#include <set>

#include "runtime/yaml/reader.h"
#include "runtime/yaml/writer.h"
#include "tests/experiments/katib/katib_data.h"

namespace volador::experiments::katib {
namespace {

using yaml::Entry;
using yaml::Value;

// Steps of "spec.parameters[0].name": keys and indices.
struct Step {
  std::string key;
  size_t index = 0;
  bool is_index = false;
};

std::vector<Step> steps_of(std::string_view path) {
  std::vector<Step> steps;
  while (!path.empty()) {
    if (path.front() == '[') {
      const size_t end = path.find(']');
      size_t index = 0;
      std::from_chars(path.data() + 1, path.data() + end, index);
      steps.push_back({"", index, true});
      path.remove_prefix(end + 1);
    } else {
      if (path.front() == '.') path.remove_prefix(1);
      const size_t end = std::min(path.find_first_of(".["), path.size());
      steps.push_back({std::string(path.substr(0, end)), 0, false});
      path.remove_prefix(end);
    }
  }
  return steps;
}

// The value that the path names, made where it is missing.
Value& value_at(Value& root, const std::vector<Step>& steps) {
  Value* at = &root;
  for (const Step& step : steps) {
    if (step.is_index) {
      if (!at->is_list()) *at = Value::list();
      while (at->items.size() <= step.index) at->items.push_back(Value::map());
      at = &at->items[step.index];
    } else {
      if (!at->is_map()) *at = Value::map();
      if (at->find(step.key) == nullptr) at->set(step.key, {});
      at = at->find(step.key);
    }
  }
  return *at;
}

void remove_at(Value& root, std::vector<Step> steps) {
  const Step last = steps.back();
  steps.pop_back();
  value_at(root, steps).erase(last.key);
}

Value cases_of(const std::string& name) {
  auto document = yaml::read(katib_file("cases/" + name), name);
  EXPECT_TRUE(document) << document.error().text();
  return document ? std::move(document->root) : Value::list();
}

std::string text_of(const Value& one, std::string_view key, const std::string& otherwise = "") {
  const Value* value = one.find(key);
  return value == nullptr ? otherwise : value->text;
}

std::vector<std::string> expected(const Value& one, std::string_view key) {
  std::vector<std::string> texts;
  if (const Value* list = one.find(key))
    for (const Value& item : list->items) texts.push_back(item.text);
  return texts;
}

Value given_resource(const Value& one, const Value& valid) {
  if (const Value* whole = one.find("resource")) return *whole;
  Value root;
  for (const Value& candidate : valid.items)
    if (text_of(candidate, "name") == text_of(one, "of", "experiment")) root = *candidate.find("resource");
  if (const Value* paths = one.find("remove"))
    for (const Value& path : paths->items) remove_at(root, steps_of(path.text));
  if (const Value* changes = one.find("set"))
    for (const Entry& change : changes->entries) value_at(root, steps_of(change.key)) = change.value;
  return root;
}

void expect_findings(const std::vector<Finding>& found, const std::vector<std::string>& expected_texts,
                     const std::string& all) {
  ASSERT_EQ(found.size(), expected_texts.size()) << all;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NE(found[i].text().find(expected_texts[i]), std::string::npos) << "expected " << expected_texts[i] << "\n"
                                                                          << all;
    EXPECT_TRUE(found[i].place.is_known()) << all;
  }
}

TEST(KatibResourceCases, HaveTheExpectedErrorsAndWarnings) {
  const Value valid = cases_of("valid.yaml");
  std::set<std::string> names;
  size_t negative = 0;
  for (const char* file : {"experiment.yaml", "template.yaml", "jobs.yaml"}) {
    for (const Value& one : cases_of(file).items) {
      const std::string name = text_of(one, "case");
      SCOPED_TRACE(name);
      EXPECT_TRUE(names.insert(name).second);
      for (const Entry& entry : one.entries)
        EXPECT_TRUE(std::set<std::string>({"case", "resource", "of", "set", "remove", "errors", "warnings"})
                        .contains(entry.key))
            << entry.key;
      const ResourceReading reading = read_resources(yaml::yaml_text(given_resource(one, valid)), "given.yaml");
      const auto errors = expected(one, "errors");
      negative += errors.empty() ? 0 : 1;
      expect_findings(reading.findings.errors(), errors, texts_of(reading.findings));
      expect_findings(reading.findings.warnings(), expected(one, "warnings"), texts_of(reading.findings));
      EXPECT_EQ(reading.resources.size(), errors.empty() ? 1u : 0u);
    }
  }
  EXPECT_GE(negative, 100u);
}

TEST(KatibResourceCases, AreReadAgainWithTheSameResult) {
  for (const Value& one : cases_of("valid.yaml").items) {
    SCOPED_TRACE(text_of(one, "name"));
    const ResourceReading first = read_resources(yaml::yaml_text(*one.find("resource")), "given.yaml");
    ASSERT_TRUE(first.is_valid()) << texts_of(first.findings);
    const std::string json = yaml::json_text(first.resources.front().object);
    const auto again = resource_of(json);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(yaml::json_text(again->object), json);
    EXPECT_EQ(change_of(first.resources.front(), *again).value(), Change::kUnchanged);
  }
}

}  // namespace
}  // namespace volador::experiments::katib
