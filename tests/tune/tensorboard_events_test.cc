// Event files are parsed by an independent reader that shares no code with the writer.
#include "tune/results/tensorboard_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "runtime/crc32c.h"
#include "temporary_directory.h"
#include "tune/results/result_logger.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;

constexpr WallTime kNow{std::chrono::milliseconds(1'700'000'000'250)};

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// Bitwise, by the polynomial.
uint32_t slow_masked_crc(std::string_view bytes) {
  uint32_t crc = 0xffffffffU;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78U : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// The fields of a message by number; repeated ones in order.
using Fields = std::multimap<int, std::string>;

uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  ADD_FAILURE() << "a varint is cut";
  return 0;
}

Fields fields_of(std::string_view bytes) {
  Fields fields;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    const int number = static_cast<int>(key >> 3);
    size_t size = 0;
    switch (key & 7) {
      case 0: {
        fields.emplace(number, std::to_string(take_varint(bytes)));
        continue;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = take_varint(bytes);
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    if (size > bytes.size()) {
      ADD_FAILURE() << "field " << number << " is cut";
      return fields;
    }
    fields.emplace(number, std::string(bytes.substr(0, size)));
    bytes.remove_prefix(size);
  }
  return fields;
}

std::string only(const Fields& fields, int number) {
  EXPECT_EQ(fields.count(number), 1u) << "field " << number;
  const auto found = fields.find(number);
  return found == fields.end() ? std::string() : found->second;
}

double real_of(std::string_view bytes) {
  double value = 0;
  EXPECT_EQ(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}
float single_of(std::string_view bytes) {
  float value = 0;
  EXPECT_EQ(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

// Returns the events of complete records and the remaining bytes in `rest`.
std::vector<Fields> events_of(std::string_view file, std::string* rest = nullptr) {
  std::vector<Fields> events;
  while (file.size() >= 12) {
    const uint64_t length = little_endian(file.substr(0, 8));
    EXPECT_EQ(little_endian(file.substr(8, 4)), slow_masked_crc(file.substr(0, 8)));
    if (file.size() < 16 + length) break;
    const std::string_view data = file.substr(12, length);
    EXPECT_EQ(little_endian(file.substr(12 + length, 4)), slow_masked_crc(data));
    events.push_back(fields_of(data));
    file.remove_prefix(16 + length);
  }
  if (rest != nullptr) *rest = file;
  return events;
}

std::map<std::string, float> scalars_of(const Fields& event) {
  std::map<std::string, float> found;
  const Fields summary = fields_of(only(event, 5));
  for (auto [at, end] = summary.equal_range(1); at != end; ++at) {
    const Fields value = fields_of(at->second);
    found[only(value, 1)] = single_of(only(value, 2));
  }
  return found;
}

// The HParams plugin's data of an event, with its tag first.
std::pair<std::string, Fields> hparams_of(const Fields& event) {
  const Fields value = fields_of(only(fields_of(only(event, 5)), 1));
  const Fields plugin = fields_of(only(fields_of(only(value, 9)), 1));
  EXPECT_EQ(only(plugin, 1), "hparams");
  return {only(value, 1), fields_of(only(plugin, 2))};
}

TEST(Crc32c, IsThatOfTheStandard) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
}

TEST(TensorboardEvents, StartWithTheVersionThatReadersLookFor) {
  std::string file;
  append_event_version(file, kNow);
  const auto events = events_of(file);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(only(events[0], 3), "brain.Event:2");
  EXPECT_EQ(real_of(only(events[0], 1)), 1'700'000'000.25);
  EXPECT_EQ(event_file_name(kNow, "3f2a90c1"), "events.out.tfevents.1700000000.3f2a90c1");
}

TEST(TensorboardEvents, HaveAPointForEachMetric) {
  std::string file;
  append_event_scalars(file, kNow, 300, {{"accuracy", 0.5}, {"training_iteration", 300}, {"loss", std::nan("")}});
  const auto events = events_of(file);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(only(events[0], 2), "300");
  auto scalars = scalars_of(events[0]);
  EXPECT_EQ(scalars.size(), 2u);
  EXPECT_EQ(scalars["accuracy"], 0.5F);
  EXPECT_TRUE(std::isnan(scalars["loss"]));
}

TEST(TensorboardEvents, TellTheParametersByKind) {
  std::string file;
  append_event_session_start(file, kNow, "3f2a90c1",
                             {{"lr", 0.25}, {"model", {{"width", 32}}}, {"act", "relu"}, {"bias", true}});
  append_event_session_end(file, kNow, false);
  const auto events = events_of(file);
  ASSERT_EQ(events.size(), 2u);
  const auto [tag, data] = hparams_of(events[0]);
  EXPECT_EQ(tag, "_hparams_/session_start_info");
  const Fields start = fields_of(only(data, 3));
  EXPECT_EQ(only(start, 4), "3f2a90c1");
  EXPECT_EQ(real_of(only(start, 5)), 1'700'000'000.25);
  std::map<std::string, Fields> parameters;
  for (auto [at, end] = start.equal_range(1); at != end; ++at) {
    const Fields entry = fields_of(at->second);
    parameters[only(entry, 1)] = fields_of(only(entry, 2));
  }
  EXPECT_EQ(parameters.size(), 4u);
  EXPECT_EQ(real_of(only(parameters["lr"], 2)), 0.25);
  EXPECT_EQ(real_of(only(parameters["model.width"], 2)), 32);
  EXPECT_EQ(only(parameters["act"], 3), "relu");
  EXPECT_EQ(only(parameters["bias"], 4), "1");
  const auto [end_tag, end_data] = hparams_of(events[1]);
  EXPECT_EQ(end_tag, "_hparams_/session_end_info");
  EXPECT_EQ(only(fields_of(only(end_data, 4)), 1), "2");
}

TEST(TensorboardEvents, LieBesideTheOtherResultsOfATrial) {
  const TemporaryDirectory directory;
  constexpr TrialId kTrial{0x3f2a90c1};
  const auto reported = [&](int64_t step, double accuracy) {
    ResultRow row;
    row.trial = kTrial;
    row.step = step;
    row.metrics = {{"accuracy", accuracy}};
    row.time_total_s = static_cast<double>(step);
    row.reported = kNow;
    return row;
  };
  ResultLogger logger({.directory = directory.path()});
  logger.start_trial(kTrial, kNow, {{"lr", 0.25}});
  logger.log(reported(1, 0.5));
  logger.flush();
  logger.start_trial(kTrial, kNow, {{"lr", 0.5}});  // A copy of another trial: the dashboard keeps the first.
  logger.log(reported(2, 0.75));
  logger.end_trial(kTrial, kNow, true);
  logger.flush();
  std::string rest;
  const auto events =
      events_of(read_text(directory.path() / "3f2a90c1" / "events.out.tfevents.1700000000.3f2a90c1"), &rest);
  EXPECT_EQ(rest, "");
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(hparams_of(events[1]).first, "_hparams_/session_start_info");
  EXPECT_EQ(scalars_of(events[2])["accuracy"], 0.5F);
  EXPECT_EQ(scalars_of(events[3])["time_total_s"], 2);
  EXPECT_EQ(only(events[3], 2), "2");
  EXPECT_EQ(hparams_of(events[4]).first, "_hparams_/session_end_info");
}

TEST(TensorboardEvents, AreNotWrittenWhereTheyAreSwitchedOff) {
  const TemporaryDirectory directory;
  ResultLogger logger({.directory = directory.path(), .tensorboard = false});
  logger.start_trial(TrialId(1), kNow, {{"lr", 0.25}});
  logger.end_trial(TrialId(1), kNow, true);
  logger.flush();
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path() / "00000001"))
    files.push_back(entry.path().filename());
  EXPECT_THAT(files, ElementsAre("params.json"));
}

}  // namespace
}  // namespace volador::tune
