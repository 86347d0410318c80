// Trial state at the head, and requests to the programs that run the trials.
#include "head/kernel/core.h"

#include <gmock/gmock.h>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::HasSubstr;

class HeadTrialsTest : public CoreFixture {};

TEST_F(HeadTrialsTest, TrialsAreListedAndExplained) {
  hello();
  protocol::ClientMessage message;
  protocol::ExperimentUpdate& update = *message.mutable_experiment();
  update.set_experiment("digits");
  update.set_state("running");
  update.set_trials_total(3);
  protocol::TrialRow& row = *update.add_trials();
  row.set_trial_id("3f2a");
  row.set_status("stopped");
  row.set_reason("below the best third of rung 9");
  send(message);
  send(message);
  EXPECT_EQ(core->lists().trials(now, {})->trials_size(), 1);
  EXPECT_EQ(core->lists().trials(now, {})->total(), 3);
  EXPECT_THAT(*core->explainer().text(now, "3f2a"), HasSubstr("below the best third of rung 9"));
  protocol::ClientMessage goodbye;
  goodbye.mutable_goodbye();
  send(goodbye);
  EXPECT_EQ(core->lists().status(now).experiments(0).state(), "crashed");
}

TEST_F(HeadTrialsTest, TrialsAreListedByTheirTags) {
  hello();
  protocol::ClientMessage message;
  protocol::ExperimentUpdate& update = *message.mutable_experiment();
  update.set_experiment("digits");
  update.set_state("running");
  update.set_trials_total(9);
  for (const auto& [id, tags] :
       {std::pair<const char*, std::vector<const char*>>("t1", {"wide", "keep"}), {"t2", {"wide"}}, {"t3", {}}}) {
    protocol::TrialRow& row = *update.add_trials();
    row.set_trial_id(id);
    row.set_name(std::string("name of ") + id);
    for (const char* tag : tags) row.add_tags(tag);
  }
  send(message);
  const auto listed = [&](std::vector<std::string> tags, int limit = 0) {
    v1::ListRequest request;
    request.set_limit(limit);
    for (const std::string& tag : tags) request.add_tags(tag);
    return core->lists().trials(now, request).value();
  };
  EXPECT_EQ(listed({}).total(), 9);
  EXPECT_EQ(listed({"wide"}).trials_size(), 2);
  EXPECT_EQ(listed({"wide"}, 1).trials_size(), 1);
  EXPECT_EQ(listed({"wide"}, 1).total(), 2);
  ASSERT_EQ(listed({"wide", "keep"}).trials_size(), 1);
  EXPECT_EQ(listed({"keep"}).trials(0).name(), "name of t1");
  EXPECT_EQ(listed({"keep"}).trials(0).tags_size(), 2);
  EXPECT_EQ(listed({"narrow"}).total(), 0);
  EXPECT_THAT(*core->explainer().text(now, "name of t1"),
              ::testing::AllOf(HasSubstr("trial t1 (name of t1) of digits"), HasSubstr("tags: wide, keep")));
}

TEST_F(HeadTrialsTest, WhatIsAskedOfAnExperimentGoesToTheDriverThatRunsIt) {
  hello();
  protocol::ClientMessage message;
  protocol::ExperimentUpdate& update = *message.mutable_experiment();
  update.set_experiment("digits_2026");
  update.set_state("running");
  for (const auto& [id, status] :
       {std::pair("3f2a90c1", "running"), std::pair("3f000000", "stopped"), std::pair("aa000000", "waiting")}) {
    protocol::TrialRow& row = *update.add_trials();
    row.set_trial_id(id);
    row.set_status(status);
  }
  send(message);
  v1::ControlExperimentRequest request;
  v1::ControlExperimentReply reply;
  request.set_act("pause");
  const auto refusal = [&](const std::string& experiment, const std::string& trial) {
    request.set_experiment(experiment);
    request.set_trial(trial);
    const auto told = control(request, reply);
    return told ? Error{ErrorCode::kInternal, "it was taken"} : told.error();
  };
  request.set_experiment("digits");
  take(*control(request, reply));
  EXPECT_EQ(to_clients.back().session, kDriver1);
  EXPECT_EQ(to_clients.back().message.request().experiment(), "digits_2026");
  EXPECT_EQ(to_clients.back().message.request().trial(), "");
  EXPECT_EQ(to_clients.back().message.request().act(), "pause");
  message.mutable_experiment()->set_state("paused");
  send(message);
  request.set_act("resume");
  request.set_trial("3f2");
  take(*control(request, reply));
  EXPECT_EQ(to_clients.back().message.request().trial(), "3f2a90c1") << "one that is paused has not ended";
  EXPECT_EQ(reply.trial(), "3f2a90c1");
  EXPECT_EQ(refusal("moon", "").code, ErrorCode::kNotFound);
  EXPECT_THAT(refusal("digits", "3f").message,
              HasSubstr("2 trials of experiment \"digits_2026\" match: 3f000000, 3f2a90c1"));
  EXPECT_EQ(refusal("digits", "3f00").code, ErrorCode::kNotFound) << "it has ended";
  EXPECT_EQ(refusal("digits", "bb").code, ErrorCode::kNotFound);
  EXPECT_EQ(refusal("", "").code, ErrorCode::kNotFound) << "no name is no name";
  request.set_act("add");
  EXPECT_THAT(refusal("digits", "").message,
              HasSubstr("config: expected a JSON object of parameters, or the trial to clone"));
  EXPECT_EQ(refusal("digits", "bb").code, ErrorCode::kNotFound) << "there is no such trial";
  request.set_trial("3f00");
  take(*control(request, reply));
  EXPECT_EQ(reply.trial(), "3f000000") << "one that has ended is cloned, too";
  EXPECT_EQ(to_clients.back().message.request().trial(), "3f000000");
  EXPECT_EQ(to_clients.back().message.request().config(), "{}") << "a repetition";
  reply.Clear();
  request.set_config(std::string(70'000, ' '));
  EXPECT_THAT(refusal("digits", "").message, HasSubstr("at most 65536"));
  request.set_config(R"({"lr":0.5})");
  request.set_request_id("mine");
  take(*control(request, reply, "ann"));
  EXPECT_EQ(to_clients.back().message.request().act(), "add");
  EXPECT_EQ(to_clients.back().message.request().config(), R"({"lr":0.5})");
  EXPECT_EQ(to_clients.back().message.request().request_id(), "ann/mine") << "an id is its token's own";
  request.set_act("explode");
  EXPECT_THAT(refusal("digits", "").message, HasSubstr("expected stop, pause, resume or add, got \"explode\""));
  request.set_act("stop");
  take(core->on_client_lost(now, kDriver1));
  EXPECT_EQ(refusal("digits", "").code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace volador::head
