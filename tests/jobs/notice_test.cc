#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "jobs/job_yaml.h"
#include "jobs/notify/notice.h"
#include "jobs/notify/notice_message.h"
#include "jobs/notify/notice_outbox.h"
#include "jobs/notify/notice_settings.h"
#include "jobs/queue_settings.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr int64_t kNoticeMs = 1'795'630'491'000;  // 2026-11-25 18:14:51 UTC
const NoticeContext kNoticeHeron{.cluster = "heron", .cluster_id = "5f0c", .page = "https://h:1"};
constexpr const char* kNoticeYaml = R"(notifications:
  ops-feishu: {kind: feishu, url: "https://open.feishu.cn/open-apis/bot/v2/hook/K3Y", secret: s3cr3t, projects: [vision]}
  ding: {kind: dingtalk, url: "https://oapi.dingtalk.com/robot/send?access_token=K3Y", secret: s3cr3t, events: [started, failed]}
  team: {kind: mail, addresses: [li@example.org, mei@example.org]}
  chat: {kind: slack, url: "https://hooks.slack.com/services/T0/B1/K3Y"}
mail: {host: smtp.example.org, user: volador, password: pa55, from: volador@example.org}
)";

v1::QueueSettings notice_settings(const std::string& yaml = kNoticeYaml) {
  auto settings = settings_from_yaml(yaml, "queue.yaml");
  EXPECT_TRUE(settings) << settings.error().message;
  auto checked = checked_settings(settings.value_or(v1::QueueSettings()));
  EXPECT_TRUE(checked) << checked.error().message;
  return checked.value_or(v1::QueueSettings());
}

std::string notice_settings_error(const std::function<void(v1::QueueSettings&)>& change) {
  v1::QueueSettings settings = notice_settings();
  change(settings);
  const auto checked = checked_settings(settings);
  EXPECT_FALSE(checked);
  return checked ? std::string() : checked.error().message;
}

protocol::JobNotice notice(int64_t number, const std::string& event = "failed", const std::string& name = "train") {
  protocol::JobNotice out;
  out.set_number(number);
  out.set_target("ops");
  out.set_event(event);
  out.set_at_ms(kNoticeMs);
  v1::Job& job = *out.mutable_job();
  job.set_id(job_id(number));
  job.mutable_spec()->set_name(name);
  job.mutable_spec()->set_project("vision");
  job.set_state(event == "failed" ? "failed" : "running");
  job.set_reason(event == "failed" ? "on node west: exited with code 3" : "");
  job.set_exit_code(event == "failed" ? 3 : 0);
  job.set_ended_ms(event == "failed" ? kNoticeMs : 0);
  job.set_ran_ms(90'000);
  job.add_ranks()->set_node("west");
  return out;
}

TEST(NoticeSettings, TheYamlFileIsReadAndWrittenAgainWithoutSecrets) {
  const v1::QueueSettings settings = notice_settings();
  EXPECT_EQ(settings.mail().security(), "starttls");
  EXPECT_EQ(settings.mail().port(), 587);
  const std::string shown = yaml_of(without_secrets(settings));
  for (const char* secret : {"K3Y", "s3cr3t", "pa55"}) EXPECT_THAT(shown, Not(HasSubstr(secret)));
  EXPECT_THAT(shown, HasSubstr("url: https://open.feishu.cn/***"));
  auto again = settings_from_yaml(shown, "again.yaml");
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_TRUE(keep_secrets(settings, *again));
  EXPECT_EQ(checked_settings(*again)->DebugString(), settings.DebugString());
}

TEST(NoticeSettings, AHiddenSecretStandsForAStoredOneOfTheSameNameAndMachine) {
  const auto error = [](const std::function<void(v1::QueueSettings&)>& change) {
    v1::QueueSettings given = without_secrets(notice_settings());
    change(given);
    const auto kept = keep_secrets(notice_settings(), given);
    return kept ? std::string() : kept.error().message;
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_THAT(error([](auto& s) { s.mutable_notifications(0)->set_name("other"); }),
              HasSubstr("notifications: other: url: *** stands for the stored address"));
  EXPECT_THAT(error([](auto& s) { s.mutable_notifications(0)->set_url("https://evil.example/***"); }),
              HasSubstr("give the whole address"));
  EXPECT_THAT(error([](auto& s) { s.mutable_notifications(3)->set_secret("***"); }),
              HasSubstr("notifications: chat: secret: *** stands for the stored one"));
  EXPECT_THAT(error([](auto& s) { s.mutable_mail()->set_host("evil.example"); }),
              HasSubstr("mail: password: *** stands for the stored one"));
}

TEST(NoticeSettings, RulesOfTheFields) {
  const auto first = [](const std::function<void(v1::Notification&)>& change) {
    return notice_settings_error([&](v1::QueueSettings& s) { change(*s.mutable_notifications(0)); });
  };
  EXPECT_THAT(first([](auto& n) { n.set_name("ding"); }), HasSubstr("notifications: ding is given twice"));
  EXPECT_THAT(first([](auto& n) { n.set_name("a@b"); }), HasSubstr("expected a name of 1 to 63"));
  EXPECT_THAT(first([](auto& n) { n.set_kind("pager"); }),
              HasSubstr("ops-feishu: kind: expected mail, slack, feishu, dingtalk, wecom, json, got \"pager\""));
  EXPECT_THAT(first([](auto& n) { n.add_events("crashed"); }), HasSubstr("events: expected started, "));
  EXPECT_THAT(first([](auto& n) { n.set_url("ftp://K3Y"); }), HasSubstr("ops-feishu: url: expected an address like"));
  EXPECT_THAT(first([](auto& n) { n.set_url("ftp://K3Y"); }), Not(HasSubstr("K3Y")));
  EXPECT_THAT(first([](auto& n) { n.add_addresses("a@b"); }), HasSubstr("addresses are for mail"));
  EXPECT_THAT(first([](auto& n) { n.set_kind("wecom"); }), HasSubstr("the key of wecom is in its url"));
  EXPECT_THAT(notice_settings_error([](auto& s) { s.mutable_notifications(2)->clear_addresses(); }),
              HasSubstr("team: addresses: expected 1 to 50 mail addresses, got 0"));
  EXPECT_THAT(notice_settings_error([](auto& s) { s.mutable_notifications(2)->set_addresses(0, "li@x>\r\nDATA"); }),
              HasSubstr("expected a mail address such as mei@example.org"));
  EXPECT_THAT(notice_settings_error([](auto& s) { s.clear_mail(); }), HasSubstr("there is no server for mail"));
  EXPECT_THAT(notice_settings_error([](auto& s) { s.mutable_mail()->set_security("ssl"); }),
              HasSubstr("mail: security: expected starttls, tls or none, got \"ssl\""));
  EXPECT_THAT(notice_settings_error([](auto& s) { s.mutable_mail()->set_security("none"); }),
              HasSubstr("the password would travel in clear text"));
  EXPECT_THAT(notice_settings_error([](auto& s) { s.mutable_mail()->clear_password(); }),
              HasSubstr("user and password go together; only user was given"));
  EXPECT_THAT(notice_settings_error([](auto& s) { s.mutable_mail()->clear_from(); }),
              HasSubstr("mail: from: expected"));
  EXPECT_THAT(notice_settings_error([](auto& s) { s.mutable_mail()->set_host("smtp://h/x"); }),
              HasSubstr("mail: host: expected the name"));
}

TEST(NoticeSettings, AnEmptyMailServerIsNone) {
  v1::QueueSettings settings;
  settings.mutable_mail();
  const auto checked = checked_settings(settings);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_FALSE(checked->has_mail());
}

TEST(NoticeSettings, WhomAJobNamesIsChecked) {
  const auto error = [](const v1::QueueSettings& settings, const char* who) {
    v1::JobSpec spec;
    spec.add_notify(who);
    const auto checked = check_notify(settings, spec);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(error(notice_settings(), "chat"), "");
  EXPECT_EQ(error(notice_settings(), "mei@example.org"), "");
  EXPECT_THAT(error(notice_settings(), "chatt"),
              StartsWith("notify: there is no notification \"chatt\"; did you mean chat?"));
  EXPECT_THAT(error(notice_settings(), "chatt"), EndsWith("the names are ops-feishu, ding, team, chat"));
  EXPECT_THAT(error(notice_settings(), "mei@"), HasSubstr("expected a mail address"));
  EXPECT_THAT(error({}, "mei@example.org"), HasSubstr("the cluster has no server for mail; an operator adds `mail`"));
  EXPECT_THAT(error({}, "chat"), HasSubstr("the settings have none"));
}

TEST(Notice, TargetsAreThoseOfTheProjectAndThoseThatTheJobNames) {
  const v1::QueueSettings settings = notice_settings();
  v1::JobSpec spec;
  spec.set_project("speech");
  EXPECT_THAT(notice_targets(settings, spec, "failed"), IsEmpty());
  spec.set_project("vision");
  EXPECT_THAT(notice_targets(settings, spec, "failed"), ElementsAre("ops-feishu"));
  EXPECT_THAT(notice_targets(settings, spec, "succeeded"), IsEmpty());
  for (const char* who : {"ops-feishu", "ding", "mei@example.org", "mei@example.org"}) spec.add_notify(who);
  EXPECT_THAT(notice_targets(settings, spec, "failed"), ElementsAre("ops-feishu", "ding", "mei@example.org"));
  EXPECT_THAT(notice_targets(settings, spec, "started"), ElementsAre("ding", "mei@example.org"));
  EXPECT_THAT(notice_targets(settings, spec, "alert"), ElementsAre("ops-feishu", "mei@example.org"));
  EXPECT_THAT(notice_targets(settings, spec, "preempted"), IsEmpty());
}

TEST(Notice, TheTextSaysWhatHappenedAndWhereToLook) {
  EXPECT_EQ(notice_text({notice(7)}, kNoticeHeron, 9999),
            "[volador heron] job-7 train failed: on node west: exited with code 3\n\ncluster: heron\nproject: vision\n"
            "state: failed\nnodes: west\nran: 1 min 30 s\nexit code: 3\npage: https://h:1/#/jobs/job-7\n");
  EXPECT_EQ(notice_title({notice(7, "started", "job-7")}), "job-7 started");
  EXPECT_EQ(notice_title({notice(1), notice(2), notice(3, "expired")}), "3 jobs ended: 2 failed, 1 expired");
  EXPECT_EQ(notice_title({notice(1), notice(2, "started")}), "2 events of jobs: 1 started, 1 failed");
  EXPECT_EQ(notice_title({notice(1, "failed", "a\r\nBcc: x")}),
            "job-1 a??Bcc: x failed: on node west: exited with code 3");
  std::vector<protocol::JobNotice> many;
  for (int i = 1; i <= 30; ++i) many.push_back(notice(i, "failed", "训练"));
  EXPECT_THAT(notice_text(many, kNoticeHeron, 99'999), EndsWith("  https://h:1/#/jobs/job-20\nand 10 more\n"));
  const std::string cut = notice_text(many, kNoticeHeron, 500);
  EXPECT_LE(cut.size(), 500U);
  EXPECT_THAT(cut, EndsWith("\n…"));
}

// The constants are those of Python's hmac and base64.
TEST(NoticeMessage, BodiesAndSignaturesAreThoseOfTheVendors) {
  v1::Notification to;
  to.set_url("https://h/x?k=v");
  const std::vector<protocol::JobNotice> one{notice(7, "started", "a<b")};
  const std::string text =
      R"([volador heron] job-7 a<b started\n\ncluster: heron\nproject: vision\nstate: running\nnodes: west\npage: https://h:1/#/jobs/job-7\n)";
  const auto post = [&](const char* kind, const char* secret) {
    to.set_kind(kind);
    to.set_secret(secret);
    return notice_post(to, one, kNoticeHeron, kNoticeMs);
  };
  EXPECT_THAT(post("slack", "").body, StartsWith(R"({"text":"[volador heron] job-7 a&lt;b started\n\n)"));
  EXPECT_EQ(
      post("feishu", "s3cr3t").body,
      R"({"timestamp":"1795630491","sign":"0hk+SCbU8QIsOHSix1AWdCZe4Pucy8niqU9zc4mi9VA=","msg_type":"text","content":{"text":")" +
          text + R"("}})");
  EXPECT_EQ(post("feishu", "").body, R"({"msg_type":"text","content":{"text":")" + text + R"("}})");
  EXPECT_EQ(post("dingtalk", "s3cr3t").url,
            "https://h/x?k=v&timestamp=1795630491000&sign=qUcq71MfshGPQ3vHuoXjrAtvj6eyLd4q1SnQxuG9w2w%3D");
  EXPECT_EQ(post("dingtalk", "").url, "https://h/x?k=v");
  EXPECT_EQ(post("dingtalk", "").body,
            R"({"msgtype":"text","text":{"content":")" + text + R"("},"at":{"isAtAll":false}})");
  EXPECT_EQ(post("wecom", "").body, R"({"msgtype":"text","text":{"content":")" + text + R"("}})");
  const outgoing::Post json = post("json", "s3cr3t");
  EXPECT_EQ(
      json.body,
      R"({"id":"5f0c-1795630491000-7","event":"job.started","text":"heron: job-7 a<b started","cluster":"heron",)"
      R"("time_ms":1795630491000,"fields":{"job":"job-7","name":"a<b","project":"vision","user":"","state":"running",)"
      R"("reason":"","nodes":["west"],"exit_code":0,"ran_ms":90000},"url":"https://h:1/#/jobs/job-7"})");
  EXPECT_THAT(
      json.headers,
      ElementsAre("X-Volador-Signature: sha256=48295d871dc079a414c590ae4de043a0251f736128e886021157f66954a48af4"));
}

TEST(NoticeMessage, ACodeInTheAnswerIsARefusal) {
  const auto answer = [](const char* kind, const char* body, int status = 200) {
    const auto checked =
        checked_answer(kind, {.status = status, .delivered = status == 200, .body = body, .why = "status 500"});
    return checked.delivered ? "delivered" : checked.why;
  };
  EXPECT_EQ(answer("slack", "ok"), "delivered");
  EXPECT_EQ(answer("json", ""), "delivered");
  EXPECT_EQ(answer("feishu", R"({"code":0,"msg":"success"})"), "delivered");
  EXPECT_EQ(answer("feishu", R"({"code":19021,"msg":"sign match fail"})"), "code 19021: sign match fail");
  EXPECT_EQ(answer("dingtalk", R"({"errcode":130101,"errmsg":"send too fast"})"), "errcode 130101: send too fast");
  EXPECT_EQ(answer("wecom", R"({"errcode":0,"errmsg":"ok"})"), "delivered");
  EXPECT_EQ(answer("wecom", "<html>"), "wecom answers with something else than JSON");
  EXPECT_EQ(answer("wecom", "", 500), "status 500");
}

TEST(NoticeMessage, AMailHasItsSubjectInEncodedWordsOfWholeCharacters) {
  const outgoing::Mail mail =
      notice_mail(notice_settings().mail(), {"li@example.org", "mei@example.org"},
                  {notice(7, "failed", "训练训练训练训练训练训练训练训练训练")}, kNoticeHeron, kNoticeMs);
  EXPECT_EQ(mail.security, outgoing::MailSecurity::kStartTls);
  EXPECT_EQ(mail.port, 587);
  const std::string head = mail.message.substr(0, mail.message.find("\r\n\r\n"));
  EXPECT_THAT(head, StartsWith("From: volador@example.org\r\nTo: li@example.org,\r\n mei@example.org\r\nSubject: "
                               "=?UTF-8?B?W3ZvbGFkb3IgaGVyb25dIGpvYi03IOiuree7g+iuree7gw==?=\r\n =?UTF-8?B?"));
  EXPECT_THAT(
      head,
      HasSubstr("\r\nDate: Wed, 25 Nov 2026 18:14:51 +0000\r\nMessage-ID: <5f0c-1795630491000-7@example.org>\r\n"));
  for (size_t at = 0; at < mail.message.size();) {
    const size_t end = mail.message.find("\r\n", at);
    ASSERT_NE(end, std::string::npos);
    EXPECT_LE(end - at, 76U);
    at = end + 2;
  }
  EXPECT_THAT(notice_mail(notice_settings().mail(), {"a@b"}, {notice(7, "started")}, kNoticeHeron, kNoticeMs).message,
              HasSubstr("Subject: [volador heron] job-7 train started\r\n"));
}

class NoticeOutboxTest : public testing::Test {
 protected:
  // The numbers of the next message; empty: none may be sent.
  std::vector<int64_t> next(seconds pause = seconds(4), size_t together = 100) {
    batch_ = outbox_.next(now_, [&](const std::string&) { return NoticePace{.pause = pause, .together = together}; });
    std::vector<int64_t> out;
    if (!batch_) return out;
    for (const auto& each : batch_->notices) out.push_back(each.number());
    return out;
  }
  std::vector<int64_t> settle(int status, bool is_final = false) {
    return outbox_.settle(*batch_, {.status = status, .delivered = status == 200, .is_final = is_final}, now_).finished;
  }
  void add(int64_t number, const std::string& target = "ops") {
    protocol::JobNotice made = notice(number);
    made.set_target(target);
    outbox_.add(made);
  }

  NoticeOutbox outbox_{{.attempts = 3, .first_pause = seconds(10), .longest_pause = seconds(15)}};
  BootTime now_{seconds(1000)};
  std::optional<NoticeOutbox::Batch> batch_;
};

TEST_F(NoticeOutboxTest, WhatCannotBeSentYetGoesTogether) {
  EXPECT_EQ(outbox_.due(), std::nullopt);
  add(1);
  EXPECT_THAT(next(), ElementsAre(1));
  EXPECT_THAT(settle(200), ElementsAre(1));
  for (const int64_t number : {2, 3, 4}) add(number);
  EXPECT_THAT(next(), IsEmpty());
  EXPECT_EQ(outbox_.due(), now_ + seconds(4));
  add(9, "other");
  EXPECT_THAT(next(), ElementsAre(9)) << "each target has its own limit";
  settle(200);
  now_ += seconds(4);
  EXPECT_THAT(next(), ElementsAre(2, 3, 4));
  EXPECT_THAT(settle(200), ElementsAre(2, 3, 4));
  EXPECT_THAT(next(), IsEmpty());
  now_ += seconds(4);
  EXPECT_THAT(next(), IsEmpty());
  EXPECT_TRUE(outbox_.empty());
}

TEST_F(NoticeOutboxTest, AMessageHasAtMostSoManyReports) {
  for (const int64_t number : {1, 2, 3}) add(number);
  EXPECT_THAT(next(seconds(0), 1), ElementsAre(1));
  EXPECT_THAT(settle(200), ElementsAre(1));
  EXPECT_THAT(next(seconds(0), 2), ElementsAre(2, 3));
}

TEST_F(NoticeOutboxTest, AFailedMessageIsSentAgainAfterLongerPausesAndThenGivenUp) {
  add(1);
  EXPECT_THAT(next(), ElementsAre(1));
  EXPECT_THAT(settle(503), IsEmpty());
  add(2);
  EXPECT_THAT(next(), IsEmpty());
  now_ += seconds(10);
  EXPECT_THAT(next(), ElementsAre(1, 2));
  EXPECT_EQ(batch_->attempt, 2);
  EXPECT_THAT(settle(0), IsEmpty());
  EXPECT_EQ(outbox_.due(), now_ + seconds(15)) << "the longest pause";
  now_ += seconds(15);
  EXPECT_THAT(next(), ElementsAre(1, 2));
  const auto settled = outbox_.settle(*batch_, {.status = 503}, now_);
  EXPECT_THAT(settled.finished, ElementsAre(1, 2));
  EXPECT_TRUE(settled.gave_up);
  add(3);
  now_ += seconds(4);
  EXPECT_THAT(next(), ElementsAre(3));
  EXPECT_EQ(batch_->attempt, 1);
  EXPECT_THAT(settle(404), ElementsAre(3)) << "another attempt would not help";
}

TEST_F(NoticeOutboxTest, ARefusedLoginIsNotTriedAgain) {
  add(1);
  EXPECT_THAT(next(), ElementsAre(1));
  EXPECT_THAT(settle(535, true), ElementsAre(1));
}

// The core keeps the rows of reports until they are delivered.
class NoticeCoreTest : public JobCoreTest {
 protected:
  std::vector<protocol::JobNotice> reports() {
    std::vector<protocol::JobNotice> out;
    for (const auto& [key, value] : rows_) {
      if (key.first != kNoticesTable) continue;
      EXPECT_TRUE(out.emplace_back().ParseFromString(value));
    }
    return out;
  }
  std::vector<std::string> said() {
    std::vector<std::string> out;
    for (const auto& each : reports()) out.push_back(each.target() + ": " + notice_title({each}));
    return out;
  }
};

TEST_F(NoticeCoreTest, ReportsStayUntilTheyAreDeliveredAndASecondLifeDeliversTheRest) {
  node("west", 2);
  look();
  queue_settings(kNoticeYaml);
  v1::JobSpec spec = core_spec(1);
  spec.set_name("train");
  spec.add_notify("mei@example.org");
  spec.set_project("vision");
  const std::string id = running(spec);
  EXPECT_THAT(said(), ElementsAre("mei@example.org: job-1 train started"));
  core_->on_reported({reports().front().number(), 999});
  settle();
  EXPECT_THAT(said(), IsEmpty());
  exits(id, 3);
  EXPECT_THAT(said(), ElementsAre("ops-feishu: job-1 train failed: exited with code 3",
                                  "mei@example.org: job-1 train failed: exited with code 3"));
  const auto before = reports();
  core_.emplace(limits_, random_);
  for (const auto& [key, value] : rows_) EXPECT_TRUE(core_->load(key.first, key.second, value));
  core_->start(now_);
  const JobActions actions = core_->take();
  ASSERT_EQ(actions.notices.size(), 2U);
  EXPECT_EQ(actions.notices[0].DebugString(), before[0].DebugString());
  ASSERT_TRUE(actions.settings);
  EXPECT_EQ(actions.settings->mail().password(), "pa55");
}

TEST_F(NoticeCoreTest, TheFirstLineOfALogPolicyIsAnAlert) {
  node("west", 2);
  look();
  queue_settings(kNoticeYaml);
  v1::JobSpec spec = core_spec(1);
  spec.set_name("train");
  spec.set_project("vision");
  v1::LogPolicy& policy = *spec.add_log_policies();
  policy.set_pattern("NaN");
  policy.set_action("notify");
  const std::string id = running(spec);
  for (const int64_t known : {0, 1}) {
    core_->on_log_matches(actor(id), known, {{.policy = 0, .line = "loss NaN"}}, now_);
    settle();
    EXPECT_THAT(
        said(),
        ElementsAre(
            "ops-feishu: job-1 train has an alert: its output on node west matched the log policy NaN: loss NaN"));
  }
}

TEST_F(NoticeCoreTest, SecretsAreInNoReplyAndNoEvent) {
  queue_settings(kNoticeYaml);
  EXPECT_THAT(core_->queue().DebugString(), Not(HasSubstr("K3Y")));
  auto shown = core_->queue().settings();
  shown.set_preemption("urgent");
  const auto changed = core_->set_queue(shown);
  ASSERT_TRUE(changed) << changed.error().message;
  const JobActions actions = core_->take();
  for (const auto& secret : {"K3Y", "s3cr3t", "pa55"}) {
    EXPECT_THAT(changed->DebugString(), Not(HasSubstr(secret)));
    for (const JobEvent& event : actions.events)
      EXPECT_THAT(testing::PrintToString(event.fields), Not(HasSubstr(secret)));
    EXPECT_THAT(actions.settings->DebugString(), HasSubstr(secret)) << "the stored ones are kept";
  }
}

TEST_F(NoticeCoreTest, AJobThatNamesAnUnknownTargetIsRefused) {
  node("west", 2);
  look();
  v1::JobSpec spec = core_spec(1);
  spec.add_notify("chat");
  const auto refused = try_submit(spec);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace volador::jobs
