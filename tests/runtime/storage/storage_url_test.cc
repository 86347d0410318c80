#include "runtime/storage/storage_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StorageUrl parsed(std::string_view text) {
  auto url = parse_storage_url(text);
  EXPECT_TRUE(url) << text << ": " << (url ? "" : url.error().message);
  return url.value_or(StorageUrl());
}

std::string refusal(std::string_view text) {
  const auto url = parse_storage_url(text);
  EXPECT_FALSE(url) << text;
  if (url) return "";
  EXPECT_EQ(url.error().code, ErrorCode::kInvalidArgument);
  return url.error().message;
}

std::string refusal(const StorageSettings& settings) {
  const auto target = storage_target(settings);
  EXPECT_FALSE(target);
  return target ? "" : target.error().message;
}

TEST(StorageUrl, AddressesHaveBucketPrefixAndParameters) {
  EXPECT_EQ(parsed("s3://models/a/b"), (StorageUrl{.kind = StorageKind::kS3, .container = "models", .prefix = "a/b"}));
  EXPECT_EQ(parsed("s3://models"), (StorageUrl{.kind = StorageKind::kS3, .container = "models"}));
  EXPECT_EQ(
      parsed("s3://models/?endpoint=http://minio:9000/&region=eu-west-1"),
      (StorageUrl{
          .kind = StorageKind::kS3, .container = "models", .endpoint = "http://minio:9000", .region = "eu-west-1"}));
  EXPECT_EQ(parsed("gs://models/x").kind, StorageKind::kGcs);
  EXPECT_EQ(parsed("azure://models/x?account=me").account, "me");
  EXPECT_EQ(parsed("azure://models?endpoint=https://me.blob.core.windows.net").account, "me");
  EXPECT_EQ(parsed("azure://models?endpoint=http://127.0.0.1:10000/devstoreaccount1").account, "devstoreaccount1");
  EXPECT_EQ(parsed("file:///data/x%20y/").prefix, "/data/x y");
  EXPECT_EQ(parsed("/data//x/").prefix, "/data/x");
  EXPECT_TRUE(parsed("relative/path").prefix.starts_with('/'));
}

TEST(StorageUrl, ThePrefixIsCleaned) {
  EXPECT_EQ(parsed("s3://models//this/./prefix/").prefix, "this/prefix");
  EXPECT_EQ(parsed("s3://models/a%2Fb%23").prefix, "a/b#");
}

TEST(StorageUrl, TheTextIsReadBack) {
  for (const char* text : {"s3://models/a/b", "s3://models", "gs://models/x?endpoint=http://127.0.0.1:4443",
                           "azure://models/x?account=me&endpoint=http://[::1]:10000/me",
                           "s3://models/a%23b%3Fc%25?endpoint=http://minio:9000&region=eu", "/data/x"}) {
    EXPECT_EQ(parsed(text).text(), text);
    EXPECT_EQ(parsed(parsed(text).text()), parsed(text));
  }
}

TEST(StorageUrl, WhatIsWrongIsNamed) {
  EXPECT_THAT(refusal("s3://models/a/../b"), HasSubstr("prefix cannot contain /../"));
  EXPECT_THAT(refusal("s3://models/a/%2e%2e/b"), HasSubstr("prefix cannot contain /../"));
  EXPECT_THAT(refusal("/data/../etc"), HasSubstr("may not contain \"..\""));
  EXPECT_THAT(refusal("s4://models"), HasSubstr("did you mean s3?"));
  EXPECT_THAT(refusal("s3://m"), HasSubstr("the name of a bucket"));
  EXPECT_THAT(refusal("s3:///x"), HasSubstr("the name of a bucket"));
  EXPECT_THAT(refusal("azure://Models"), HasSubstr("the name of a container"));
  EXPECT_THAT(refusal("s3://models?endpont=http://x"), HasSubstr("did you mean endpoint?"));
  EXPECT_THAT(refusal("gs://models?region=eu"), HasSubstr("unknown parameter \"region\""));
  EXPECT_THAT(refusal("s3://models?endpoint=minio:9000"), HasSubstr("expected an endpoint like"));
  EXPECT_THAT(refusal("s3://models?endpoint="), HasSubstr("has no value"));
  EXPECT_THAT(refusal("s3://models/%zz"), HasSubstr("two hexadecimal digits"));
  EXPECT_THAT(refusal("file://host/x"), HasSubstr("absolute path"));
  EXPECT_THAT(refusal(std::string("s3://models/a\nb")), HasSubstr("control characters"));
  EXPECT_THAT(refusal("s3://models/\xff"), HasSubstr("UTF-8"));
}

TEST(StorageUrl, CredentialsInAnAddressAreRefusedAndNotRepeated) {
  for (const char* text : {"s3://key:hidden@models/x", "s3://models?secret_key=hidden",
                           "s3://models?endpoint=http://a:hidden@minio", "azure://models?sig=hidden"}) {
    EXPECT_THAT(refusal(text), Not(HasSubstr("hidden")));
    EXPECT_THAT(refusal(text), HasSubstr("environment"));
  }
}

TEST(StorageUrl, AnAddressIsSplitAtItsLastPart) {
  const auto split = parsed("s3://models/a/b?region=eu").parent();
  ASSERT_TRUE(split);
  EXPECT_EQ(split->first.text(), "s3://models/a?region=eu");
  EXPECT_EQ(split->second, "b");
  EXPECT_EQ(split->first.below("b"), parsed("s3://models/a/b?region=eu"));
  EXPECT_EQ(parsed("/data").parent()->first.prefix, "/");
  EXPECT_FALSE(parsed("s3://models").parent());
  EXPECT_EQ(parsed("s3://models").below("x").prefix, "x");
}

TEST(StorageSettings, SharedFoldersStayInsideTheirPath) {
  StorageSettings settings{.type = "shared_fs", .host_path = "/mnt/share"};
  EXPECT_EQ(storage_target(settings)->url.prefix, "/mnt/share");
  for (const auto& [inner, whole] :
       {std::pair{"runs/a", "/mnt/share/runs/a"}, {"/mnt/share/b", "/mnt/share/b"}, {"/mnt/share", "/mnt/share"}}) {
    settings.storage_path = inner;
    EXPECT_EQ(storage_target(settings)->url.prefix, whole);
  }
  for (const char* outside : {"/mnt/shared", "/etc", "../x", "a/../../x"}) {
    settings.storage_path = outside;
    EXPECT_FALSE(storage_target(settings)) << outside;
  }
  EXPECT_THAT(refusal({.type = "shared_fs"}), HasSubstr("host_path is missing"));
  EXPECT_THAT(refusal({.type = "shared_fs", .host_path = "relative"}), HasSubstr("absolute path"));
  EXPECT_EQ(storage_target({.type = "directory", .container_path = "/c"})->url.prefix, "/c");
}

TEST(StorageSettings, ObjectStoresTakeTheKeysOfTheirKind) {
  const auto s3 = storage_target({.type = "s3",
                                  .bucket = "models",
                                  .prefix = "/this/./prefix",
                                  .access_key = "k",
                                  .secret_key = "s",
                                  .endpoint_url = "http://minio:9000"});
  ASSERT_TRUE(s3);
  EXPECT_EQ(s3->url.text(), "s3://models/this/prefix?endpoint=http://minio:9000");
  EXPECT_EQ(s3->credentials.secrets(), std::vector<std::string>{"s"});
  EXPECT_THAT(refusal({.type = "s3"}), HasSubstr("bucket is missing"));
  EXPECT_THAT(refusal({.type = "s3", .bucket = "models", .prefix = "a/../b"}), HasSubstr("prefix cannot contain /../"));
  EXPECT_THAT(refusal({.type = "s3", .bucket = "models", .access_key = "k"}), HasSubstr("both be set"));
  EXPECT_EQ(storage_target({.type = "gcs", .bucket = "models"})->url.text(), "gs://models");
  EXPECT_THAT(refusal({.type = "s5"}), HasSubstr("did you mean s3?"));
}

TEST(StorageSettings, AzureTakesExactlyOneWayToTheAccount) {
  const std::string connection =
      "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=a2V5;EndpointSuffix=core.windows.net";
  const auto target = storage_target({.type = "azure", .container = "models", .connection_string = connection});
  ASSERT_TRUE(target) << target.error().message;
  EXPECT_EQ(target->url.account, "me");
  EXPECT_EQ(target->url.endpoint, "https://me.blob.core.windows.net");
  EXPECT_THAT(target->credentials.secrets(), ::testing::Contains("a2V5"));
  EXPECT_TRUE(storage_target(
      {.type = "azure", .container = "models", .account_url = "https://me.blob.core.windows.net", .credential = "k"}));
  EXPECT_THAT(refusal({.type = "azure", .container = "models", .connection_string = connection, .credential = "k"}),
              HasSubstr("credential and connection_string must not both be set"));
  EXPECT_THAT(refusal({.type = "azure", .container = "models"}), HasSubstr("exactly one of"));
  EXPECT_THAT(
      refusal({.type = "azure", .container = "models", .connection_string = connection, .account_url = "https://a.b"}),
      HasSubstr("exactly one of"));
  EXPECT_THAT(refusal({.type = "azure", .container = "models", .connection_string = "AccountName=me"}),
              HasSubstr("neither AccountKey"));
}

TEST(Keys, AreRelativeAndPlain) {
  for (const char* good : {"a", "a/b", "a b+c=d", "..a", "名字"}) EXPECT_TRUE(check_key("key", good)) << good;
  for (const char* bad : {"", "/a", "a/", "a//b", ".", "a/..", "../a", "a\tb", "\xff"})
    EXPECT_FALSE(check_key("key", bad)) << bad;
  EXPECT_FALSE(check_key("key", std::string(1025, 'a')));
}

}  // namespace
}  // namespace volador::storage
