#include "runtime/language/reason.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "runtime/language/catalogue.h"

namespace volador {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

ResourceSet amounts(double cpus, double gpus, int64_t memory) {
  return *ResourceSet::from({.cpus = cpus, .gpus = gpus, .memory = memory});
}

// Returns the placeholders by number, each once: "{0|one|many}" is {0}.
std::set<std::string> places(const std::string& text) {
  std::set<std::string> found;
  const std::regex place(R"(\{([0-9]+)(\|[^{}|]*\|[^{}|]*)?\})");
  for (std::sregex_iterator at(text.begin(), text.end(), place), end; at != end; ++at) found.insert((*at)[1]);
  return found;
}

TEST(ReasonCatalogue, HasBothLanguagesWithTheSamePlaces) {
  const auto json = nlohmann::json::parse(catalogue_reasons());
  ASSERT_GT(json.size(), 100u);
  const std::regex place(R"(\{[0-9]+(\|[^{}|]*\|[^{}|]*)?\})");
  for (const auto& [key, texts] : json.items()) {
    ASSERT_EQ(texts.size(), 2u) << key;
    const std::string english = texts.at("en"), chinese = texts.at("zh");
    EXPECT_FALSE(english.empty()) << key;
    EXPECT_FALSE(chinese.empty()) << key;
    std::set<std::string> of_english = places(english);
    // "it|them" may be absent in a language without number.
    const std::set<std::string> of_chinese = places(chinese);
    EXPECT_TRUE(std::includes(of_english.begin(), of_english.end(), of_chinese.begin(), of_chinese.end())) << key;
    for (const std::string& number : of_english) {
      const bool is_said = english.find("{" + number + "}") != std::string::npos;
      EXPECT_TRUE(!is_said || of_chinese.contains(number)) << key << " lacks {" << number << "} in Chinese";
      EXPECT_LT(std::stoul(number), of_english.size()) << key << ": a place is left out";
    }
    for (const std::string& text : {english, chinese}) {
      EXPECT_EQ(std::regex_replace(text, place, "").find_first_of("{}"), std::string::npos)
          << key << ": a brace that makes no place";
    }
  }
}

TEST(ReasonCatalogue, HasTheSentencesThatTheSourcesSayAndNoOthers) {
  std::string sources;
  for (const char* folder : {"experiments", "head", "jobs", "worker", "runtime", "tune", "volador"}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      std::ifstream stream(entry.path());
      sources.append(std::istreambuf_iterator<char>(stream), {});
    }
  }
  const auto json = nlohmann::json::parse(catalogue_reasons());
  std::set<std::string, std::less<>> said;  // Texts from a quote to the next one: each literal, and the text between
                                            // two.
  for (size_t at = sources.find('"'); at != std::string::npos;) {
    const size_t end = std::min(sources.find('"', at + 1), sources.size());
    const std::string_view text = std::string_view(sources).substr(at + 1, end - at - 1);
    if (json.contains(text)) said.emplace(text);
    at = end == sources.size() ? std::string::npos : end;
  }
  for (const auto& [key, texts] : json.items()) EXPECT_TRUE(said.contains(key)) << key << " is said nowhere";
  const std::string_view call = "reason(\"";
  size_t calls = 0;
  for (size_t at = sources.find(call); at != std::string::npos; at = sources.find(call, at + 1), ++calls) {
    const size_t key = at + call.size();
    const std::string name = sources.substr(key, sources.find('"', key) - key);
    EXPECT_TRUE(json.contains(name)) << "dashboard/web/src/i18n/reasons.json lacks " << name;
  }
  EXPECT_GT(calls, 50u) << "the calls were not found";
}

TEST(Reason, IsSaidInBothLanguages) {
  const Reason waits = reason("waits.in_use_only", amounts(0, 2, 0), "8", "8");
  EXPECT_EQ(waits.text(), "waits for gpus 2: 8 of 8 in use on the only node");
  EXPECT_EQ(waits.text(Language::kChinese), "等待 2 GPU：唯一的节点已用 8，共 8");
  const Reason behind =
      and_also(waits, reason("waits.behind_earlier", 3, reason("waits.first_is", reason("name.tasks", "1a2b3c4d"))));
  EXPECT_EQ(
      behind.text(),
      "waits for gpus 2: 8 of 8 in use on the only node; behind 3 earlier requests, the first is tasks (1a2b3c4d)");
  EXPECT_EQ(behind.text(Language::kChinese),
            "等待 2 GPU：唯一的节点已用 8，共 8；前面有 3 个更早的请求：最前面的是任务（1a2b3c4d）");
  EXPECT_EQ(reason("waits.together", amounts(0.5, 1, 2 << 20)).text(Language::kChinese),
            "等待单个节点同时空出 0.5 CPU，1 GPU，2 MiB 内存");
  EXPECT_EQ(reason("waits.node_is", "heron", cluster_word("draining")).text(Language::kChinese), "节点 heron 排空中");
}

TEST(Reason, ChoosesTheFormByTheNumber) {
  EXPECT_EQ(reason("cause.shared_host", 1).text(), "it was a shared host with 1 actor");
  EXPECT_EQ(reason("cause.shared_host", 2).text(), "it was a shared host with 2 actors");
  EXPECT_EQ(reason("waits.behind_higher", reason("count.over", 1000), "x").text(),
            "behind over 1000 requests of higher priority, x");
  EXPECT_EQ(reason("lacks.labels", "zone=a", 1).text(), "asks for a node with labels zone=a; no node has it");
}

TEST(Reason, IsSaidInOtherWordsByItsSentences) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"option.and_wait", "option.first"}, {"option.resources", "option.resources_per_trial"}};
  const Reason next = reason("next.most", reason("option.resources"), "gpus", "1", reason("option.and_wait"));
  const Reason refused = reason("infeasible.start", "wait_if_infeasible",
                                reason("lacks.most", amounts(0, 2, 0), Reason(), "n1", "1"), next);
  EXPECT_EQ(refused.text(),
            "wait_if_infeasible asks for gpus 2; the largest node (n1) has 1. It could never start.\n  resources.gpus: "
            "ask at most 1, or join a larger node and set wait_if_infeasible.");
  EXPECT_EQ(refused.with_sentences(kWords).text(),
            "wait_if_infeasible asks for gpus 2; the largest node (n1) has 1. It could never start.\n  "
            "resources_per_trial.gpus: ask at most 1, or join a larger node first.");
  EXPECT_EQ(Reason::said("resources").with_sentences(kWords).text(), "resources") << "words of others stay";
  EXPECT_TRUE(Reason().with_sentences(kWords).empty());
}

TEST(Reason, IsTheMessageOfAnError) {
  const Error error = error_of(ErrorCode::kInfeasible, reason("trial.done"));
  EXPECT_EQ(error.message, "it is done");
  EXPECT_EQ(reason_of(error).text(Language::kChinese), "它报告已完成");
  EXPECT_EQ(reason_of(Error{ErrorCode::kInternal, "no space", {}}).text(Language::kChinese), "no space");
  EXPECT_EQ(reason_of(Error{ErrorCode::kInternal, "of a newer one", R"(["of.a.newer.one"])"}).text(), "of a newer one");
}

TEST(Reason, SaysNothingOrWordsThatStay) {
  EXPECT_TRUE(Reason().empty());
  EXPECT_TRUE(Reason::said("").empty());
  EXPECT_EQ(Reason().text(), "");
  EXPECT_EQ(Reason::said("std::bad_alloc").text(Language::kChinese), "std::bad_alloc");
  EXPECT_EQ(Reason::said("std::bad_alloc").to_json(), "") << "its text is all there is";
  EXPECT_EQ(because(Reason(), Reason::said("x")).text(), "x");
  EXPECT_EQ(because(reason("ended.threw"), Reason()).text(), "its constructor threw");
  EXPECT_EQ(and_also(Reason(), Reason()).text(), "");
}

TEST(Reason, TravelsAsJson) {
  const Reason why = because(reason("ended.on", reason("ended.exited", 3), "a \"b\"\\\n"),
                             and_also(reason("waits.together", amounts(1.5, 0, 123)), Reason::said("\xff")));
  const auto read = Reason::from_json(why.to_json());
  ASSERT_TRUE(read) << why.to_json();
  EXPECT_EQ(read->to_json(), why.to_json());
  EXPECT_THAT(read->text(),
              HasSubstr("exited with code 3 on node a \"b\"\\\n: waits for cpus 1.5, memory 123 B free together"));
  EXPECT_EQ(reason("waits.node_is", "a", cluster_word("dead")).to_json(), R"(["waits.node_is","a",{"word":"dead"}])");
  EXPECT_EQ(reason("explain.asks", amounts(2, 0, 0)).to_json(), R"(["explain.asks",{"amounts":{"cpus":2}}])");
}

TEST(Reason, OfANewerVoladorOrNoneIsNotRead) {
  for (const char* json :
       {"", "null", "[]", "[1]", "\"waits.soon\"", R"(["no such sentence"])", R"(["waits.soon", 1])",
        R"(["waits.for_it"])", R"(["waits.for_it", 1.5])", R"(["waits.for_it", {"word": 1}])",
        R"(["waits.for_it", {"amounts": {"cpus": -1}}])", R"(["waits.for_it", {"amounts": {"cpus": 1e300}}])",
        R"(["waits.for_it", {"word": "a", "amounts": {}}])", R"(["waits.for_it", ["x"]])", R"(["waits.soon")"}) {
    EXPECT_FALSE(Reason::from_json(json)) << json;
  }
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += R"(["waits.for_it",)";
  EXPECT_FALSE(Reason::from_json(deep + "1" + std::string(10'000, ']')));
  EXPECT_FALSE(Reason::from_json(R"(["waits.for_it", ")" + std::string(1 << 20, 'x') + "\"]"));
}

}  // namespace
}  // namespace volador
