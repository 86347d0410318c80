#include "runtime/protocol/batch.h"

#include <gtest/gtest.h>

#include "runtime/protocol/control.pb.h"

namespace volador {
namespace {

std::string ping(uint64_t number, size_t padding = 0) {
  protocol::ClientMessage message;
  message.mutable_ping()->set_sequence(number);
  if (padding > 0) message.mutable_find()->set_name(std::string(padding, 'x'));
  return message.SerializeAsString();
}
// Returns the messages that a receiver decodes from the sent bytes, in order.
std::vector<uint64_t> received(const std::string& bytes) {
  std::vector<uint64_t> numbers;
  protocol::ClientMessage message;
  EXPECT_TRUE(message.ParseFromString(bytes));
  EXPECT_TRUE(for_each_in_batch(message,
                                [&](const protocol::ClientMessage& one) { numbers.push_back(one.ping().sequence()); }));
  return numbers;
}

TEST(Batch, OneThatWaitsAloneTravelsAsItIs) {
  std::deque<std::string> waiting{ping(7)};
  EXPECT_EQ(take_batch<protocol::ClientMessage>(waiting), ping(7));
  EXPECT_TRUE(waiting.empty());
}

TEST(Batch, WhatWaitsTravelsTogetherInItsOrder) {
  std::deque<std::string> waiting;
  for (uint64_t number = 1; number <= 300; ++number) waiting.push_back(ping(number));
  std::vector<uint64_t> numbers = received(take_batch<protocol::ClientMessage>(waiting));
  EXPECT_EQ(numbers.size(), kBatchMessagesMax);
  const auto rest = received(take_batch<protocol::ClientMessage>(waiting));
  numbers.insert(numbers.end(), rest.begin(), rest.end());
  ASSERT_EQ(numbers.size(), 300u);
  for (uint64_t number = 1; number <= 300; ++number) EXPECT_EQ(numbers[number - 1], number);
  EXPECT_TRUE(waiting.empty());
}

TEST(Batch, ALargeOneTravelsAlone) {
  const std::string large = ping(2, kBatchBytesMax + 1);
  std::deque<std::string> waiting{ping(1), large, ping(3)};
  EXPECT_EQ(received(take_batch<protocol::ClientMessage>(waiting)), std::vector<uint64_t>{1});
  EXPECT_EQ(take_batch<protocol::ClientMessage>(waiting), large);
  EXPECT_EQ(received(take_batch<protocol::ClientMessage>(waiting)), std::vector<uint64_t>{3});
}

TEST(Batch, WhatCannotBeReadEndsIt) {
  protocol::ClientMessage message;
  message.add_batch(ping(1));
  message.add_batch("\xff\xff");
  message.add_batch(ping(3));
  int handled = 0;
  EXPECT_FALSE(for_each_in_batch(message, [&](const protocol::ClientMessage&) { ++handled; }));
  EXPECT_EQ(handled, 1);
  protocol::ClientMessage nested;
  nested.add_batch(message.SerializeAsString());
  EXPECT_FALSE(for_each_in_batch(nested, [&](const protocol::ClientMessage&) { ++handled; }));
  EXPECT_EQ(handled, 1);
}

}  // namespace
}  // namespace volador
