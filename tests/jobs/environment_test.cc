#include "jobs/environment/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/result.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = EnvironmentKind;

TEST(EnvironmentTest, TheTextTellsTheKind) {
  const std::vector<std::pair<std::string, Kind>> cases = {
      {"", Kind::kHost},
      {"host", Kind::kHost},
      {"requirements.txt", Kind::kRequirements},
      {"deps/train.in", Kind::kRequirements},
      {"/shared/requirements.txt", Kind::kRequirements},
      {"uv.lock", Kind::kUvLock},
      {"app/uv.lock", Kind::kUvLock},
      {"pyproject.toml", Kind::kProject},
      {"environment.yml", Kind::kConda},
      {"deps/conda.yaml", Kind::kConda},
      {"/opt/venvs/torch", Kind::kFolder},
      {"/images/cuda12.tar", Kind::kImage},
      {"docker://registry.local:5000/team/cuda:12", Kind::kImage},
      {"docker://registry.local/cuda@sha256:00ff", Kind::kImage},
      {"oci:/images/layout:latest", Kind::kImage},
      {"cuda12", Kind::kName},
      {"torch-2.4_cuda12", Kind::kName},
  };
  for (const auto& [text, kind] : cases) {
    const auto parsed = parse_environment(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message;
    EXPECT_EQ(parsed->kind, kind) << text;
    EXPECT_EQ(parsed->text, kind == Kind::kHost ? "" : text);
  }
}

TEST(EnvironmentTest, OtherTextsAreRefusedWithTheRule) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"../requirements.txt", "cannot contain \"..\""},      {"/images/../etc", "cannot contain \"..\""},
      {"a/b", "expected host, a file of the code folder"},   {"two words", "expected host, a file of the code folder"},
      {"venv/", "expected host, a file of the code folder"}, {"a\nb.txt", "control characters"},
      {"docker://", "expected registry/name:tag"},           {"oci:layout", "expected an absolute path"},
      {"-x", "expected host, a file of the code folder"},
  };
  for (const auto& [text, rule] : cases) {
    const auto parsed = parse_environment(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr(rule));
  }
  // The message does not repeat a password.
  const auto secret = parse_environment("docker://user:secret@registry/name");
  ASSERT_FALSE(secret);
  EXPECT_THAT(secret.error().message, HasSubstr("~/.docker/config.json"));
  EXPECT_THAT(secret.error().message, testing::Not(HasSubstr("secret")));
}

TEST(EnvironmentTest, TheFilesOfTheCodeFolderAreNamed) {
  const auto files = [](const char* text) { return code_files_of(parse_environment(text).value()); };
  EXPECT_THAT(files("requirements.txt"), ElementsAre("requirements.txt"));
  EXPECT_THAT(files("./deps/x.in"), ElementsAre("deps/x.in"));
  EXPECT_THAT(files("app/uv.lock"), ElementsAre("app/uv.lock", "app/pyproject.toml"));
  EXPECT_THAT(files("/shared/requirements.txt"), IsEmpty());
  EXPECT_THAT(files("/opt/venv"), IsEmpty());
  EXPECT_THAT(files("cuda12"), IsEmpty());
  EXPECT_THAT(files(""), IsEmpty());
}

TEST(EnvironmentTest, WhatAListTakesFromTheCodeFolderIsFound) {
  const auto found = local_references(Kind::kRequirements,
                                      "# -r not-this.txt\n"
                                      "-r base.txt\n--requirement=more.txt  # why\n-cpins.txt\n"
                                      "--constraint https://example.org/pins.txt\n"
                                      "--find-links wheels\n-f https://example.org/wheels\n--no-index\n"
                                      "numpy==2.0 ; python_version > '3.8'\n"
                                      "torch @ https://example.org/torch.whl\n"
                                      "./libs/a[extra] ; sys_platform == 'linux'\n"
                                      "b @ file:libs/b\n"
                                      "dist/c-1.0-py3-none-any.whl --hash=sha256:00\n"
                                      "git+https://example.org/d.git#egg=d\n"
                                      "-e git+https://example.org/e.git\n"
                                      "f[x]>=1, \\\n  <2\n"
                                      ".");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->lists, ElementsAre("base.txt", "more.txt", "pins.txt"));
  EXPECT_THAT(found->contents, ElementsAre("wheels", "./libs/a", "libs/b", "dist/c-1.0-py3-none-any.whl", "."));
}

TEST(EnvironmentTest, AFolderInstalledInPlaceIsRefused) {
  for (const char* line : {"-e .", "--editable ./libs/a", "--editable=libs/a"}) {
    const auto found = local_references(Kind::kRequirements, line);
    ASSERT_FALSE(found) << line;
    EXPECT_THAT(found.error().message, HasSubstr("without -e"));
  }
}

TEST(EnvironmentTest, ALockNamesItsFolders) {
  const auto found = local_references(Kind::kUvLock,
                                      "[[package]]\nname = \"app\"\nsource = { virtual = \".\" }\n"
                                      "[[package]]\nname = \"a\"\nsource = { editable = \"libs/a\" }\n"
                                      "[[package]]\nname = \"b\"\nsource = { registry = \"https://pypi.org/simple\" }\n"
                                      "[[package]]\nname = \"c\"\nsource = { path = \"c-1.whl\" }\n");
  ASSERT_TRUE(found);
  EXPECT_THAT(found->lists, IsEmpty());
  EXPECT_THAT(found->contents, ElementsAre("libs/a", "c-1.whl"));
}

TEST(EnvironmentTest, UvIsPreferredAndWhatIsMissingIsNamed) {
  const BuildTools none;
  const BuildTools pip{.python = "/usr/bin/python3", .python_version = "cpython 3.11.2 x86_64"};
  BuildTools uv = pip;
  uv.uv = {"/usr/bin/python3", "-m", "uv"};
  BuildTools conda;
  conda.conda = "/opt/bin/micromamba";
  const Environment list{.kind = Kind::kRequirements, .text = "requirements.txt"};
  const Environment lock{.kind = Kind::kUvLock, .text = "uv.lock"};
  const Environment packages{.kind = Kind::kConda, .text = "environment.yml"};
  EXPECT_EQ(tool_for(list, uv, "a").value(), "uv");
  EXPECT_EQ(tool_for(list, pip, "a").value(), "pip");
  EXPECT_EQ(tool_for(lock, uv, "a").value(), "uv");
  EXPECT_EQ(tool_for(packages, conda, "a").value(), "micromamba");
  EXPECT_THAT(tool_for(list, none, "east").error().message, HasSubstr("node east has no python3"));
  EXPECT_THAT(tool_for(lock, pip, "east").error().message,
              HasSubstr("node east has no uv; run `pip install uv` there"));
  EXPECT_THAT(tool_for(packages, uv, "east").error().message, HasSubstr("node east has no conda, mamba or micromamba"));
}

TEST(EnvironmentTest, TheKeyFollowsContentKindPythonAndTool) {
  const std::map<std::string, std::string> contents = {{"", "aa"}, {"base.txt", "bb"}};
  const std::string key = environment_key(Kind::kRequirements, "uv", "cpython 3.11.2", contents);
  EXPECT_EQ(key.size(), 32U);
  EXPECT_EQ(environment_key(Kind::kRequirements, "uv", "cpython 3.11.2", contents), key);
  EXPECT_NE(environment_key(Kind::kProject, "uv", "cpython 3.11.2", contents), key);
  EXPECT_NE(environment_key(Kind::kRequirements, "pip", "cpython 3.11.2", contents), key);
  EXPECT_NE(environment_key(Kind::kRequirements, "uv", "cpython 3.12.0", contents), key);
  EXPECT_NE(environment_key(Kind::kRequirements, "uv", "cpython 3.11.2", {{"", "aa"}, {"base.txt", "bc"}}), key);
}

TEST(EnvironmentTest, StepsOfTheBuildNeverUseTheNodesPackages) {
  const BuildTools tools{.python = "/usr/bin/python3", .python_version = "", .uv = {"/opt/uv"}, .conda = "/opt/conda"};
  const auto words = [&](Kind kind, const char* tool) {
    std::vector<std::vector<std::string>> all;
    for (const BuildStep& step : build_steps(kind, tool, tools, "/code/list", "/env")) all.push_back(step.words);
    return all;
  };
  EXPECT_THAT(words(Kind::kRequirements, "uv"),
              ElementsAre(ElementsAre("/opt/uv", "venv", "--no-project", "--python", "/usr/bin/python3", "/env"),
                          ElementsAre("/opt/uv", "pip", "install", "--python", "/env/bin/python", "--compile-bytecode",
                                      "-r", "/code/list")));
  EXPECT_THAT(words(Kind::kRequirements, "pip"),
              ElementsAre(ElementsAre("/usr/bin/python3", "-m", "venv", "/env"),
                          ElementsAre("/env/bin/python", "-m", "pip", "install", "--disable-pip-version-check",
                                      "--no-input", "-r", "/code/list")));
  EXPECT_EQ(words(Kind::kProject, "pip").size(), 3U);
  EXPECT_THAT(words(Kind::kConda, "conda"),
              ElementsAre(ElementsAre("/opt/conda", "env", "create", "-p", "/env", "-f", "/code/list")));
  const auto sync = build_steps(Kind::kUvLock, "uv", tools, "/code/uv.lock", "/env").at(1);
  EXPECT_EQ(sync.variables.at("UV_PROJECT_ENVIRONMENT"), "/env");
  EXPECT_THAT(sync.words, testing::Contains("--frozen"));
}

TEST(EnvironmentTest, VariablesAreChanged) {
  const std::vector<std::string> before = {"HOME=/home/a", "PATH=/usr/bin", "PYTHONHOME=/x", "PYTHONPATH=/y"};
  EXPECT_THAT(changed(before, change_for_venv("/env")),
              ElementsAre("HOME=/home/a", "PATH=/env/bin:/usr/bin", "PYTHONPATH=/y", "VIRTUAL_ENV=/env"));
  EXPECT_THAT(changed({"PATH="}, change_for_venv("/env")),
              ElementsAre("PATH=/env/bin:/usr/bin:/bin", "VIRTUAL_ENV=/env"));
  EXPECT_THAT(changed(before, change_for_conda("/c")), testing::Contains("CONDA_PREFIX=/c"));
  EXPECT_THAT(changed(before, change_for_root({"PATH=/opt/conda/bin:/bin", "CUDA=12"})),
              ElementsAre("CUDA=12", "HOME=/home/a", "PATH=/opt/conda/bin:/bin"));
  EXPECT_EQ(changed(before, {}), before);
}

TEST(EnvironmentTest, AnImageHasNamesAndVariables) {
  const auto names = [](const char* text) { return image_names(parse_environment(text).value()); };
  EXPECT_THAT(names("/images/a.tar"), ElementsAre("docker-archive:/images/a.tar", "oci-archive:/images/a.tar"));
  EXPECT_THAT(names("docker://r/a:1"), ElementsAre("docker://r/a:1"));
  EXPECT_THAT(image_variables(R"({"process": {"env": ["PATH=/a:/b", "TERM=xterm", "TEXT=\"x\""], "cwd": "/"}})"),
              ElementsAre("PATH=/a:/b", "TEXT=\"x\""));
  EXPECT_THAT(image_variables("{}"), IsEmpty());
  EXPECT_THAT(image_variables("{\"process\""), IsEmpty());
}

}  // namespace
}  // namespace volador::jobs
