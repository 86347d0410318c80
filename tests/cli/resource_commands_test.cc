#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/protocol/volador/v1/katib.pb.h"
#include "tests/cli/command_line_fixture.h"
#include "tests/cli/fake_head.h"

namespace volador::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kJob = R"(apiVersion: batch/v1
kind: Job
metadata: {name: hello, namespace: team}
spec: {template: {spec: {containers: [{name: main, image: busybox, command: [echo, hello]}]}}}
)";

// Against a head of the test that has one Job and keeps the requests.
class ResourceCommands : public CommandLineTest {
 protected:
  ResourceCommands() {
    job_.set_kind("Job");
    job_.set_namespace_("team");
    job_.set_name("hello");
    job_.set_version(4);
    job_.set_object(
        R"({"spec":{},"kind":"Job","apiVersion":"batch/v1","metadata":{"name":"hello"},"status":{"conditions":[{"type":"Complete","status":"True"}]}})");
    head_.on<v1::ApplyKatibResourcesRequest, v1::ApplyKatibResourcesReply>(
        "Katib/ApplyKatibResources",
        [this](const v1::ApplyKatibResourcesRequest& request) -> Result<v1::ApplyKatibResourcesReply> {
          applied_.push_back(request);
          if (!refusal_.empty()) return make_error(ErrorCode::kInvalidArgument, refusal_);
          v1::ApplyKatibResourcesReply reply;
          auto& one = *reply.add_resources();
          one.set_kind("Job");
          one.set_name("hello");
          one.set_action("configured");
          one.set_group("batch");
          reply.add_warnings("images are not used");
          return reply;
        });
    head_.on<v1::ListKatibResourcesRequest, v1::ListKatibResourcesReply>(
        "Katib/ListKatibResources",
        [this](const v1::ListKatibResourcesRequest& request) -> Result<v1::ListKatibResourcesReply> {
          listed_.push_back(request);
          v1::ListKatibResourcesReply reply;
          reply.set_version(9);
          const bool fits = request.kind() == "Job" && (request.name().empty() || request.name() == "hello") &&
                            (request.namespace_().empty() || request.namespace_() == "team");
          if (fits) *reply.add_resources() = job_;
          return reply;
        });
    head_.on<v1::DeleteKatibResourceRequest, v1::DeleteKatibResourceReply>(
        "Katib/DeleteKatibResource",
        [this](const v1::DeleteKatibResourceRequest& request) -> Result<v1::DeleteKatibResourceReply> {
          if (request.name() != "hello") return make_error(ErrorCode::kNotFound, "there is no job " + request.name());
          deleted_.push_back(request);
          return v1::DeleteKatibResourceReply();
        });
  }
  Output call(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--address=" + head_.address(), "--token=" + head_.token()});
    return run(arguments);
  }
  std::string write(const std::string& name, const std::string& text) {
    const auto path = folder_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }

  FakeHead head_;
  v1::KatibResource job_;
  std::string refusal_;
  std::vector<v1::ApplyKatibResourcesRequest> applied_;
  std::vector<v1::ListKatibResourcesRequest> listed_;
  std::vector<v1::DeleteKatibResourceRequest> deleted_;
};

TEST_F(ResourceCommands, ApplyChecksAllBeforeItChangesAnything) {
  const Output output = call({"apply", "-f", write("job.yaml", kJob)});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_EQ(output.out, "job.batch/hello configured\n");
  EXPECT_EQ(output.error, "warning: images are not used\n");
  ASSERT_EQ(applied_.size(), 2u);
  EXPECT_TRUE(applied_[0].dry_run());
  EXPECT_FALSE(applied_[1].dry_run());
  EXPECT_NE(applied_[1].request_id(), "");
  EXPECT_EQ(applied_[1].yaml(), kJob);
  EXPECT_THAT(applied_[1].file_name(), HasSubstr("job.yaml"));
}

TEST_F(ResourceCommands, ApplyPrintsAllErrorsWithTheirPlaces) {
  const Output output = call({"apply", "-f", write("bad.yaml", "apiVersion: batch/v1\nkind: job\n---\nkind: Job\n")});
  EXPECT_EQ(output.code, 3);
  EXPECT_THAT(output.error, HasSubstr("error: kind: expected one of"));
  EXPECT_THAT(output.error, HasSubstr("bad.yaml:2:7)"));
  EXPECT_THAT(output.error, HasSubstr("error: apiVersion: is required; for kind Job it is batch/v1"));
  EXPECT_THAT(output.error, HasSubstr("errors in the resources: 2"));
  EXPECT_TRUE(applied_.empty());
}

TEST_F(ResourceCommands, ApplyPrintsEachErrorOfTheHead) {
  refusal_ = "spec.algorithm: one\nspec.algorithm: two";
  const Output output = call({"apply", "-f", write("job.yaml", kJob)});
  EXPECT_EQ(output.code, 3);
  EXPECT_THAT(output.error, HasSubstr("error: spec.algorithm: one\nerror: spec.algorithm: two\n"));
}

TEST_F(ResourceCommands, ApplyRunsDry) {
  const std::string file = write("job.yaml", kJob);
  EXPECT_EQ(call({"apply", "-f", file, "--dry-run=server"}).out, "job.batch/hello configured (server dry run)\n");
  ASSERT_EQ(applied_.size(), 1u);
  EXPECT_TRUE(applied_[0].dry_run());
  const Output here = run({"apply", "-f", file, "--dry-run=client"});
  EXPECT_EQ(here.out, "job.batch/hello created (dry run)\n");
  EXPECT_THAT(here.error, HasSubstr("warning: spec.template.spec.containers[0].image: images are not used"));
}

TEST_F(ResourceCommands, ApplySendsTheCode) {
  std::filesystem::create_directory(folder_.path() / "code");
  std::ofstream(folder_.path() / "code" / "train.py") << "print(1)\n";
  head_.on<v1::PutJobFilesRequest, v1::PutJobFilesReply>(
      "Jobs/PutJobFiles", [](const v1::PutJobFilesRequest&) -> Result<v1::PutJobFilesReply> {
        v1::PutJobFilesReply reply;
        reply.set_complete(true);
        return reply;
      });
  const Output output = call({"apply", "-f", write("job.yaml", kJob), "--code", (folder_.path() / "code").string()});
  EXPECT_EQ(output.code, 0) << output.error;
  ASSERT_EQ(applied_.size(), 2u);
  EXPECT_EQ(applied_[0].files_sha256(), "");
  EXPECT_EQ(applied_[1].files_sha256().size(), 64u);
}

TEST_F(ResourceCommands, ApplyRefusesAnotherNamespace) {
  const Output output = call({"apply", "-f", write("job.yaml", kJob), "-n", "other"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.error, HasSubstr("the namespace of job.batch/hello is team, and --namespace is other"));
}

TEST_F(ResourceCommands, GetPrintsTables) {
  EXPECT_EQ(call({"get", "jobs", "-n", "team"}).out,
            "NAME    STATUS     COMPLETIONS   DURATION   AGE\nhello   Complete   0/1                      <unknown>\n");
  EXPECT_THAT(call({"get", "all", "-A"}).out, HasSubstr("team        job.batch/hello   Complete"));
  EXPECT_EQ(call({"get", "job/hello", "-n", "team", "-o", "name"}).out, "job.batch/hello\n");
  const Output none = call({"get", "trial", "-l", "katib.kubeflow.org/experiment=x,team=a"});
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.error, "No resources found in default namespace.\n");
  EXPECT_EQ(listed_.back().labels().at("katib.kubeflow.org/experiment"), "x");
  EXPECT_EQ(listed_.back().labels().at("team"), "a");
}

TEST_F(ResourceCommands, GetPrintsObjects) {
  const Output one = call({"get", "job", "hello", "-n", "team", "-o", "yaml"});
  EXPECT_EQ(one.out,
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hello\nspec: {}\nstatus:\n  conditions:\n"
            "    - type: Complete\n      status: \"True\"\n");
  const auto list = Json::parse(call({"get", "job", "-A", "-o", "json"}).out);
  EXPECT_EQ(list["kind"], "List");
  EXPECT_EQ(list["items"][0]["metadata"]["name"], "hello");
  EXPECT_EQ(Json::parse(call({"get", "job", "hello", "-n", "team", "--json"}).out)["kind"], "Job");
}

TEST_F(ResourceCommands, WhatIsNotThereIsAnError) {
  const Output output = call({"get", "job", "nothing", "-n", "team"});
  EXPECT_EQ(output.code, 6);
  EXPECT_THAT(output.error, HasSubstr("there is no job.batch nothing in the namespace team"));
  EXPECT_EQ(call({"describe", "experiment", "x"}).code, 6);
}

TEST_F(ResourceCommands, UnknownKindsNameTheNearest) {
  const Output output = call({"get", "experimnt"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.error,
              HasSubstr("there is no kind \"experimnt\"; the kinds are experiment, suggestion, trial, job"));
  EXPECT_THAT(output.error, HasSubstr("did you mean experiment?"));
}

TEST_F(ResourceCommands, WatchPrintsChangesUntilTheHeadRefuses) {
  int calls = 0;
  std::vector<int64_t> after;
  head_.on<v1::WatchKatibResourcesRequest, v1::ListKatibResourcesReply>(
      "Katib/WatchKatibResources",
      [&](const v1::WatchKatibResourcesRequest& request) -> Result<v1::ListKatibResourcesReply> {
        after.push_back(request.after());
        if (++calls > 2) return make_error(ErrorCode::kPermissionDenied, "no more");
        v1::ListKatibResourcesReply reply;
        reply.set_version(9 + calls);
        *reply.add_resources() = job_;
        return reply;
      });
  const Output output = call({"watch", "job", "-n", "team"});
  EXPECT_EQ(output.code, 5);
  EXPECT_THAT(after, ElementsAre(9, 10, 11));
  EXPECT_EQ(output.out,
            "NAME    STATUS     COMPLETIONS   DURATION   AGE\n"
            "hello   Complete   0/1                      <unknown>\n"
            "hello   Complete   0/1                      <unknown>\n"
            "hello   Complete   0/1                      <unknown>\n");
}

TEST_F(ResourceCommands, WatchPrintsWhatWasDeletedBeforeTheHeadStarted) {
  int calls = 0;
  head_.on<v1::WatchKatibResourcesRequest, v1::ListKatibResourcesReply>(
      "Katib/WatchKatibResources", [&](const v1::WatchKatibResourcesRequest&) -> Result<v1::ListKatibResourcesReply> {
        if (++calls > 2) return make_error(ErrorCode::kPermissionDenied, "no more");
        v1::ListKatibResourcesReply reply;
        reply.set_version(9 + calls);
        reply.set_complete(true);
        if (calls == 1) *reply.add_resources() = job_;  // As it was.
        return reply;
      });
  const Output output = call({"watch", "job", "-n", "team", "-o", "json"});
  EXPECT_THAT(output.out, HasSubstr("\"deleted\":true"));
  EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 2) << output.out;
}

TEST_F(ResourceCommands, DescribePrintsAll) {
  const Output output = call({"describe", "job", "hello", "-n", "team"});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("Name:         hello\nNamespace:    team\n"));
  EXPECT_THAT(output.out, HasSubstr("  Conditions:\n    Status:  True\n    Type:    Complete\n"));
}

TEST_F(ResourceCommands, DeleteTakesNamesAndFiles) {
  EXPECT_EQ(call({"delete", "job", "hello", "-n", "team"}).out, "job.batch \"hello\" deleted\n");
  EXPECT_EQ(call({"delete", "-f", write("job.yaml", kJob)}).out, "job.batch \"hello\" deleted\n");
  ASSERT_EQ(deleted_.size(), 2u);
  EXPECT_EQ(deleted_[1].namespace_(), "team");
  EXPECT_NE(deleted_[1].request_id(), deleted_[0].request_id());
  EXPECT_EQ(call({"delete", "job", "other", "-n", "team"}).code, 6);
  EXPECT_EQ(call({"delete", "job", "other", "-n", "team", "--ignore-not-found"}).code, 0);
  EXPECT_EQ(call({"delete", "job", "-n", "team"}).code, 2);
  EXPECT_EQ(call({"delete"}).code, 2);
}

TEST_F(ResourceCommands, LogsNameTheTrialsOfAnExperiment) {
  head_.on<v1::ListKatibResourcesRequest, v1::ListKatibResourcesReply>(
      "Katib/ListKatibResources",
      [](const v1::ListKatibResourcesRequest& request) -> Result<v1::ListKatibResourcesReply> {
        v1::ListKatibResourcesReply reply;
        auto& one = *reply.add_resources();
        one.set_kind(request.kind());
        one.set_name(request.name());
        return reply;
      });
  const Output output = call({"logs", "experiment/tune"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.error, HasSubstr("volador get trial -l katib.kubeflow.org/experiment=tune"));
  EXPECT_THAT(call({"logs", "trial/tune-1"}).error,
              HasSubstr("trial.kubeflow.org/tune-1 has no job; volador describe Trial tune-1 says why"));
}

}  // namespace
}  // namespace volador::cli
