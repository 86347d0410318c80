#include "volador/roles/study_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "head/journal/memory_journal.h"
#include "volador/roles/study_registry.h"

namespace volador {
namespace {

using ::testing::HasSubstr;

v1::CreateStudyRequest definition(const std::string& name = "line") {
  v1::CreateStudyRequest request;
  request.set_name(name);
  request.set_space_json(R"({"x": {"uniform": [-5, 5]}})");
  request.set_searcher("tpe:n_startup_trials=3");
  request.set_lease_s(60);
  auto& objective = *request.add_objectives();
  objective.set_metric("loss");
  objective.set_mode("min");
  return request;
}
v1::AskRequest ask_of(const std::string& study, int64_t count = 1, const std::string& id = "") {
  v1::AskRequest request;
  request.set_study(study);
  request.set_count(count);
  request.set_request_id(id);
  return request;
}
v1::TellRequest tell_of(const std::string& study, int64_t number, double value) {
  v1::TellRequest request;
  request.set_study(study);
  request.set_number(number);
  request.add_values(value);
  return request;
}
v1::GetStudyRequest get_of(const std::string& study) {
  v1::GetStudyRequest request;
  request.set_study(study);
  return request;
}

// ---- The registry, with a map as the store.

struct Store {
  std::map<std::pair<std::string, std::string>, std::string> rows;
  void take(StudyRegistry& shelf) {
    for (const head::Mutation& one : shelf.take_mutations()) {
      if (one.value) {
        rows[{one.table, one.key}] = *one.value;
      } else {
        rows.erase({one.table, one.key});
      }
    }
  }
  StudyRegistry reopened(const StudyServerLimits& limits, int64_t now_ms) const {
    StudyRegistry shelf(limits);
    for (const auto& [key, value] : rows) shelf.load(key.first, key.second, value);
    shelf.open(now_ms);
    return shelf;
  }
  size_t count(const std::string& table) const {
    return static_cast<size_t>(
        std::count_if(rows.begin(), rows.end(), [&](const auto& row) { return row.first.first == table; }));
  }
};

TEST(StudyRegistry, ReopensInTheSameStateWhateverWasStoredHow) {
  const StudyServerLimits limits{.events_min = 40};
  StudyRegistry shelf(limits);
  Store store;
  ASSERT_TRUE(shelf.create(definition(), 1000));
  for (int64_t number = 0; number < 60; ++number) {
    ASSERT_TRUE(shelf.ask(ask_of("line"), 1000 + number));
    if (number % 3 != 0) {
      ASSERT_TRUE(shelf.tell(tell_of("line", number, static_cast<double>(number)), 1000 + number));
    }
    store.take(shelf);
    if (number % 7 != 0) continue;
    StudyRegistry again = store.reopened(limits, 1000 + number);
    (void)again.take_mutations();
    v1::ListStudyTrialsRequest all;
    all.set_study("line");
    const auto trials = again.trials(all);
    ASSERT_TRUE(trials) << trials.error().message;
    EXPECT_EQ(trials->total(), number + 1);
  }
  EXPECT_EQ(store.count("study_states"), 1U);
  EXPECT_LT(store.count("study_events"), 100U);
  // Same behaviour from here on: the next proposals depend on all events.
  StudyRegistry again = store.reopened(limits, 1060);
  (void)shelf.take_mutations();
  EXPECT_EQ(again.ask(ask_of("line", 5), 2000)->trials(4).config_json(),
            shelf.ask(ask_of("line", 5), 2000)->trials(4).config_json());
}

TEST(StudyRegistry, CreatesOnceAndSaysWhatDiffers) {
  StudyRegistry shelf({});
  auto request = definition();
  request.set_request_id("c");
  ASSERT_TRUE(shelf.create(request, 1000));
  EXPECT_TRUE(shelf.create(request, 1001));
  request.set_request_id("d");
  EXPECT_THAT(shelf.create(request, 1000).error().message,
              HasSubstr("there is a study \"line\" already: take another name, or load_if_exists"));
  request.set_load_if_exists(true);
  request.set_space_json(R"({"x":{"uniform":[-5,5]}})");  // Repeats the request with different whitespace.
  EXPECT_EQ(shelf.create(request, 1000)->created_ms(), 1000);
  request.set_seed(7);
  EXPECT_THAT(shelf.create(request, 1000).error().message, HasSubstr("with another seed"));
}

TEST(StudyRegistry, DeletesForGoodAndOnce) {
  StudyRegistry shelf({});
  Store store;
  ASSERT_TRUE(shelf.create(definition(), 1000));
  ASSERT_TRUE(shelf.ask(ask_of("line", 3), 1000));
  store.take(shelf);
  v1::DeleteStudyRequest request;
  request.set_study("line");
  request.set_request_id("gone");
  ASSERT_TRUE(shelf.remove(request, 1001));
  store.take(shelf);
  EXPECT_EQ(store.rows.size(), 1U);  // The request's id.
  StudyRegistry again = store.reopened({}, 1002);
  EXPECT_TRUE(again.remove(request, 1003));
  request.set_request_id("other");
  EXPECT_EQ(again.remove(request, 1003).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(again.create(definition(), 1004));
}

TEST(StudyRegistry, KeepsItsLimits) {
  StudyRegistry shelf({.studies = 2, .config_bytes = 40, .deletions = 1});
  ASSERT_TRUE(shelf.create(definition("a"), 1));
  ASSERT_TRUE(shelf.create(definition("b"), 1));
  EXPECT_THAT(shelf.create(definition("c"), 1).error().message,
              HasSubstr("there are 2 studies, and a head keeps no more: delete one"));
  ASSERT_TRUE(shelf.ask(ask_of("a", 3), 1));
  EXPECT_THAT(shelf.ask(ask_of("b"), 1).error().message, HasSubstr("a head keeps no more"));
  EXPECT_THAT(shelf.get(get_of("aa")).error().message, HasSubstr("there is no study \"aa\""));
}

TEST(StudyRegistry, LeavesOutAStudyThatCannotBeReadAndKeepsTheOthers) {
  StudyRegistry shelf({});
  Store store;
  ASSERT_TRUE(shelf.create(definition("good"), 1));
  ASSERT_TRUE(shelf.create(definition("bad"), 1));
  ASSERT_TRUE(shelf.ask(ask_of("bad"), 1));
  ASSERT_TRUE(shelf.ask(ask_of("bad"), 1));
  store.take(shelf);
  store.rows.erase({"study_events", "bad/0000000000000000"});
  StudyRegistry again = store.reopened({}, 2);
  EXPECT_TRUE(again.get(get_of("good")));
  EXPECT_THAT(again.get(get_of("bad")).error().message, HasSubstr("cannot be read: event 0 is missing. Delete it"));
  v1::DeleteStudyRequest request;
  request.set_study("bad");
  EXPECT_TRUE(again.remove(request, 2));
}

TEST(StudyRegistry, PagesTrials) {
  StudyRegistry shelf({});
  ASSERT_TRUE(shelf.create(definition(), 1));
  ASSERT_TRUE(shelf.ask(ask_of("line", 10), 1));
  ASSERT_TRUE(shelf.tell(tell_of("line", 4, 1), 1));
  v1::ListStudyTrialsRequest request;
  request.set_study("line");
  request.set_state("running");
  request.set_page_size(4);
  auto page = shelf.trials(request);
  EXPECT_EQ(page->total(), 9);
  EXPECT_EQ(page->next_page_token(), "5");
  request.set_page_token("5");
  page = shelf.trials(request);
  EXPECT_EQ(page->trials(0).number(), 5);
  request.set_page_token("x");
  EXPECT_THAT(shelf.trials(request).error().message, HasSubstr("page_token"));
  request.set_state("gone");
  EXPECT_THAT(shelf.trials(request).error().message, HasSubstr("expected waiting, running"));
}

// ---- The server, on its thread.

template <class Reply, class Request>
Result<Reply> call(StudyServer& server, void (StudyServer::*method)(const Request&, StudyServer::Done<Reply>),
                   const Request& request) {
  auto answer = std::make_shared<std::promise<Result<Reply>>>();
  auto future = answer->get_future();
  (server.*method)(request, [answer](Result<Reply> result) { answer->set_value(std::move(result)); });
  return future.get();
}

TEST(StudyServer, GivesEachTrialToOneOfManyClients) {
  const SystemClock clock;
  StudyServer server(std::make_unique<head::MemoryJournal>(std::make_shared<head::MemoryStore>()), clock);
  ASSERT_TRUE((call<v1::Study>(server, &StudyServer::create_study, definition())));
  std::mutex mutex;
  std::set<int64_t> given;
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        const auto asked = call<v1::AskReply>(server, &StudyServer::ask, ask_of("line", 2));
        ASSERT_TRUE(asked);
        for (const v1::StudyTrial& trial : asked->trials()) {
          ASSERT_TRUE((call<v1::StudyTrial>(server, &StudyServer::tell, tell_of("line", trial.number(), 1))));
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(given.insert(trial.number()).second);
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(given.size(), 200U);
}

TEST(StudyServer, WhatWasAnsweredIsThereInTheNextOne) {
  const SystemClock clock;
  const auto store = std::make_shared<head::MemoryStore>();
  std::string config;
  {
    StudyServer server(std::make_unique<head::MemoryJournal>(store), clock);
    ASSERT_TRUE((call<v1::Study>(server, &StudyServer::create_study, definition())));
    config = call<v1::AskReply>(server, &StudyServer::ask, ask_of("line", 1, "a"))->trials(0).config_json();
    server.stop();
    EXPECT_EQ((call<v1::Study>(server, &StudyServer::get_study, get_of("line"))).error().code, ErrorCode::kUnavailable);
  }
  StudyServer server(std::make_unique<head::MemoryJournal>(store), clock);
  EXPECT_EQ((call<v1::AskReply>(server, &StudyServer::ask, ask_of("line", 1, "a")))->trials(0).config_json(), config);
  EXPECT_EQ((call<v1::Study>(server, &StudyServer::get_study, get_of("line")))->trials_total(), 1);
}

TEST(StudyServer, AnswersNothingWellThatIsNotStored) {
  const SystemClock clock;
  const auto store = std::make_shared<head::MemoryStore>();
  StudyServer server(std::make_unique<head::MemoryJournal>(store), clock);
  ASSERT_TRUE((call<v1::Study>(server, &StudyServer::create_study, definition())));
  store->fail_commits = 1;
  const auto refused = call<v1::AskReply>(server, &StudyServer::ask, ask_of("line", 1, "a"));
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("ask again, with the same request_id"));
  const auto again = call<v1::AskReply>(server, &StudyServer::ask, ask_of("line", 1, "a"));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->trials(0).number(), 0);
  EXPECT_EQ((call<v1::Study>(server, &StudyServer::get_study, get_of("line")))->trials_total(), 1);
}

}  // namespace
}  // namespace volador
