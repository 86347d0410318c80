#include "volador/roles/cluster_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador {
namespace {

using ::testing::HasSubstr;

TEST(ClusterStorage, AddressesAndFoldersAreStoragesOfConfigurations) {
  EXPECT_EQ(experiment_defaults("/shared/checkpoints").value(),
            R"({"checkpoint_storage":{"type":"shared_fs","host_path":"/shared/checkpoints"}})");
  EXPECT_EQ(
      experiment_defaults("s3://bucket/a/b?endpoint=http://minio:9000").value(),
      R"({"checkpoint_storage":{"type":"s3","bucket":"bucket","prefix":"a/b","endpoint_url":"http://minio:9000"}})");
  EXPECT_EQ(experiment_defaults("gs://bucket").value(), R"({"checkpoint_storage":{"type":"gcs","bucket":"bucket"}})");
  EXPECT_EQ(
      experiment_defaults("azure://container?account=name").value(),
      R"({"checkpoint_storage":{"type":"azure","container":"container","account_url":"https://name.blob.core.windows.net"}})");
}

TEST(ClusterStorage, WhatAConfigurationCannotSayIsRefused) {
  const auto why = [](const char* storage) {
    const auto defaults = experiment_defaults(storage);
    return defaults ? std::string("accepted") : defaults.error().message;
  };
  EXPECT_THAT(why("checkpoints"), HasSubstr("expected an absolute folder or an address such as s3://bucket/prefix"));
  EXPECT_THAT(why("s3://bucket?region=eu-west-1"), HasSubstr("set AWS_REGION in the environment of the nodes"));
  EXPECT_THAT(why("gs://bucket?endpoint=http://127.0.0.1:4443"), HasSubstr("has no endpoint for gs"));
  EXPECT_THAT(why("azure://container/prefix"), HasSubstr("has no prefix for azure"));
  EXPECT_NE(why("ftp://host/x"), "accepted");
}

}  // namespace
}  // namespace volador
