#include "experiments/config/checkpoint_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::experiments {
namespace {

using ::testing::HasSubstr;

TEST(CheckpointTarget, FoldersAreThoseOfTheConfiguration) {
  EXPECT_EQ(checkpoint_target(R"({"type":"shared_fs","host_path":"/shared","storage_path":"runs"})")->url.text(),
            "/shared/runs");
  EXPECT_EQ(checkpoint_target(R"({"type":"shared_fs","host_path":"/shared","storage_path":null})")->url.text(),
            "/shared");
  EXPECT_EQ(checkpoint_target(R"({"type":"directory","container_path":"/data"})")->url.text(), "/data");
}

TEST(CheckpointTarget, ObjectStoresHaveTheirCredentials) {
  const auto s3 = checkpoint_target(
      R"({"type":"s3","bucket":"models","prefix":"/this/./prefix","access_key":"AK","secret_key":"SK",
          "endpoint_url":"http://minio:9000"})");
  ASSERT_TRUE(s3) << s3.error().message;
  EXPECT_EQ(s3->url.kind, storage::StorageKind::kS3);
  EXPECT_EQ(s3->url.prefix, "this/prefix");
  EXPECT_EQ(s3->url.endpoint, "http://minio:9000");
  EXPECT_EQ(s3->credentials.access_key, "AK");
  EXPECT_EQ(s3->credentials.secret_key, "SK");
  EXPECT_EQ(checkpoint_target(R"({"type":"gcs","bucket":"models","prefix":"a"})")->url.text(), "gs://models/a");
  const auto azure = checkpoint_target(
      R"({"type":"azure","container":"models","account_url":"https://heron.blob.core.windows.net","credential":"k"})");
  ASSERT_TRUE(azure) << azure.error().message;
  EXPECT_EQ(azure->url.account, "heron");
  EXPECT_EQ(azure->credentials.credential, "k");
}

TEST(CheckpointTarget, NothingLeavesItsPlace) {
  for (const char* json :
       {R"({"type":"s3","bucket":"models","prefix":"a/../../b"})", R"({"type":"gcs","bucket":"models","prefix":".."})",
        R"({"type":"shared_fs","host_path":"/shared","storage_path":"../etc"})",
        R"({"type":"shared_fs","host_path":"/shared","storage_path":"/etc"})"})
    EXPECT_EQ(checkpoint_target(json).error().code, ErrorCode::kInvalidArgument) << json;
  EXPECT_THAT(checkpoint_target("{}").error().message, HasSubstr("expected a type"));
  EXPECT_THAT(checkpoint_target(R"({"type":"hdfs"})").error().message, HasSubstr("expected a type"));
  EXPECT_THAT(checkpoint_target("{").error().message, HasSubstr("not valid YAML"));
}

}  // namespace
}  // namespace volador::experiments
