#include "runtime/control/status.h"

#include <gmock/gmock.h>
#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

namespace volador::control {
namespace {

using testing::HasSubstr;

TEST(Status, EveryCodeMakesTheRoundTripExactly) {
  for (int number = 1; number <= 12; ++number) {
    const Error error{static_cast<ErrorCode>(number), "gpus: asks 2 – the largest node has 1"};
    EXPECT_EQ(from_status(to_status(error), "10.0.0.1:6380"), error) << number;
    EXPECT_FALSE(to_status(error).ok());
  }
}

TEST(Status, MessagesAreCutAndCleaned) {
  EXPECT_EQ(to_status({ErrorCode::kInternal, std::string(10'000, 'x')}).error_message().size(), 4096U);
  EXPECT_EQ(to_status({ErrorCode::kInternal, "a\xff\xc3(b"}).error_message(), "a(b");
}

TEST(Status, ForeignStatusesNameWhatWasTried) {
  const auto refused =
      from_status({grpc::StatusCode::UNAVAILABLE, "connect: Connection refused (111)"}, "10.0.0.1:6380");
  EXPECT_EQ(refused.code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.message, HasSubstr("nothing listens at 10.0.0.1:6380"));
  EXPECT_TRUE(nobody_listens({grpc::StatusCode::UNAVAILABLE, "connect: Connection refused (111)"}));
  EXPECT_FALSE(nobody_listens({grpc::StatusCode::UNAVAILABLE, "Socket closed"}));
  EXPECT_FALSE(nobody_listens(to_status({ErrorCode::kUnavailable, "Connection refused"})))
      << "a head that says so is there";
  const grpc::Status removed(grpc::StatusCode::UNKNOWN, "Stream removed");
  EXPECT_TRUE(connection_lost(removed));
  EXPECT_EQ(from_status(removed, "10.0.0.1:6380").code, ErrorCode::kUnavailable);
  EXPECT_THAT(from_status(removed, "10.0.0.1:6380").message, HasSubstr("connection to 10.0.0.1:6380 was lost"));
  EXPECT_FALSE(connection_lost(to_status({ErrorCode::kUnavailable, "no space left"}))) << "an answer of the head";
  EXPECT_FALSE(connection_lost(to_status({ErrorCode::kApplication, "Stream removed"})));
  const auto late = from_status({grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"}, "10.0.0.1:6380");
  EXPECT_EQ(late.code, ErrorCode::kTimeout);
  EXPECT_THAT(late.message, HasSubstr("10.0.0.1:6380"));
  const auto unknown = from_status({grpc::StatusCode::UNIMPLEMENTED, ""}, "10.0.0.1:6380");
  EXPECT_EQ(unknown.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(unknown.message, HasSubstr("another version"));
}

TEST(Status, AnUnknownNumberOfANewerPeerIsInternal) {
  const grpc::Status status(grpc::StatusCode::UNKNOWN, "new", "volador-error:99");
  EXPECT_EQ(from_status(status, "x:1").code, ErrorCode::kInternal);
  const grpc::Status garbage(grpc::StatusCode::UNKNOWN, "new", "volador-error:zz");
  EXPECT_EQ(from_status(garbage, "x:1").code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace volador::control
