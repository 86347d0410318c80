// Event files of TensorBoard and the text format of Prometheus. The files are made by the writer of tune/, which shares
// no code with the reader, and by hand where it writes no such records.
#include "experiments/katib/event_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "experiments/katib/prometheus_text.h"
#include "runtime/base64.h"
#include "runtime/crc32c.h"
#include "tune/results/tensorboard_events.h"

namespace volador::experiments::katib {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr WallTime kNow{std::chrono::milliseconds(1'700'000'000'250)};

// A file of tensorboardX, with a histogram and a text beside the scalars, and one of TensorBoard's own writer, whose
// scalars are tensors.
constexpr const char* kFileOfTensorboardX =
    "GAAAAAAAAACjf0siCYaqznSBwtpBGg1icmFpbi5FdmVudDoyCjXX9ycAAAAAAAAAu+GxRgkAABBA/FTZQSocChoKE3ZhbGlkYXRpb24v"
    "YWNjdXJhY3kVAAAAP77wRokpAAAAAAAAADf/XwAJAABQQPxU2UEQASocChoKE3ZhbGlkYXRpb24vYWNjdXJhY3kVAABAP5DoQb4uAQAA"
    "AAAAAMMbx7AJ8a3PdIHC2kEQASqgAgqdAgoHd2VpZ2h0cyqRAgkAAAAAAADwPxEAAAAAAAAIQBkAAAAAAAAIQCEAAAAAAAAYQCkAAAAA"
    "AAAsQDJwCJlpGRVa7T8rFPrNviTwP2NJxhUFwvE/ulCNMZ+I8z8zP+gcr3z1P4VFzJ/Aovc/eUz64tP/+T9Th0YTaZn8P9yUzS6Ndf8/"
    "4BHxDHRNAUB3YDwOZggDQOo2D3aj7wRAaLwQNZoHB0ANnMWgKVUJQDpwAAAAAAAAAAAAAAAAAADwPwAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA8D8AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADwPzOl"
    "KmY9AAAAAAAAAGBJ8ewJ2a7PdIHC2kEQASowCi4KEW5vdGUvdGV4dF9zdW1tYXJ5Qg8IBxIEEgIIAUIFd29yZHNKCAoGCgR0ZXh0VefY"
    "Xw==";
constexpr const char* kFileOfTensorboard =
    "SAAAAAAAAAD+kkidCfnA13SBwtpBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2ZW50X2ZpbGVf"
    "d3JpdGVy/5SzUTIAAAAAAAAAJBlW7AkAACBA/FTZQSonCiUKCGFjY3VyYWN5QgoIARIAKgTNzMw9Sg0KCQoHc2NhbGFycyABBdm0LjQA"
    "AAAAAAAAXjMXXAkAAGBA/FTZQRABKicKJQoIYWNjdXJhY3lCCggBEgAqBM3MTD5KDQoJCgdzY2FsYXJzIAGcRg0T";

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string fixed(uint64_t value, int size) {
  std::string out;
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}
std::string field(int number, const std::string& bytes) {
  return varint(static_cast<uint64_t>(number << 3 | 2)) + varint(bytes.size()) + bytes;
}
std::string integer(int number, uint64_t value) { return varint(static_cast<uint64_t>(number << 3)) + varint(value); }
std::string masked(const std::string& bytes) {
  const uint32_t crc = crc32c(bytes);
  return fixed(((crc >> 15) | (crc << 17)) + 0xa282ead8U, 4);
}
std::string record(const std::string& event) {
  const std::string length = fixed(event.size(), 8);
  return length + masked(length) + event + masked(event);
}
std::string tensor_event(const std::string& tag, const std::string& tensor) {
  return record(field(5, field(1, field(1, tag) + field(8, tensor))));
}

std::vector<std::string> scalars_of(std::string_view file, size_t piece = 1 << 20, std::string* error = nullptr) {
  EventReader reader;
  std::vector<std::string> out;
  for (size_t at = 0; at < file.size(); at += piece) {
    const auto fed = reader.feed(file.substr(at, piece),
                                 [&](const EventScalar& scalar) { out.push_back(scalar.tag + "=" + scalar.value); });
    if (!fed && error != nullptr) *error = fed.error().message;
  }
  return out;
}

TEST(EventReader, ReadsScalarsOfAGrowingFile) {
  std::string file;
  tune::append_event_version(file, kNow);
  tune::append_event_session_start(file, kNow, "3f2a90c1", {{"lr", 0.25}});
  tune::append_event_scalars(file, kNow, 300, {{"accuracy", 0.9349667}, {"loss", std::nan("")}});
  tune::append_event_scalars(file, kNow, 301, {{"accuracy", 1}});
  for (const size_t piece : {1U, 5U, 1U << 20})
    EXPECT_THAT(scalars_of(file, piece), ElementsAre("accuracy=0.9349667", "loss=nan", "accuracy=1"));
  EventReader reader;
  std::vector<EventScalar> scalars;
  ASSERT_TRUE(reader.feed(file, [&](EventScalar scalar) { scalars.push_back(std::move(scalar)); }));
  EXPECT_EQ(scalars.front().seconds, 1'700'000'000.25);
  EXPECT_EQ(scalars.front().step, 300);
  EXPECT_THAT(scalars_of(file.substr(0, file.size() - 3)), ElementsAre("accuracy=0.9349667", "loss=nan"))
      << "an incomplete record waits";
}

TEST(EventReader, ReadsFilesOfOtherWriters) {
  EXPECT_THAT(scalars_of(from_base64(kFileOfTensorboardX).value()),
              ElementsAre("validation/accuracy=0.5", "validation/accuracy=0.75"));
  EXPECT_THAT(scalars_of(from_base64(kFileOfTensorboard).value()), ElementsAre("accuracy=0.1", "accuracy=0.2"));
}

TEST(EventReader, ReadsTensorsOfOneElement) {
  const auto bits = [](auto value) {
    return std::bit_cast<std::conditional_t<sizeof(value) == 4, uint32_t, uint64_t>>(value);
  };
  const std::string file = tensor_event("float", integer(1, 1) + field(4, fixed(bits(0.1F), 4))) +
                           tensor_event("double", integer(1, 2) + field(4, fixed(bits(0.1), 8))) +
                           tensor_event("float_val", integer(1, 1) + varint(5 << 3 | 5) + fixed(bits(2.5F), 4)) +
                           tensor_event("packed", integer(1, 1) + field(5, fixed(bits(-3.0F), 4))) +
                           tensor_event("two", integer(1, 1) + field(5, fixed(bits(1.0F), 4) + fixed(bits(2.0F), 4))) +
                           tensor_event("integer", integer(1, 9) + field(10, varint(static_cast<uint64_t>(-7)))) +
                           tensor_event("content", integer(1, 3) + field(4, fixed(7, 4))) +
                           tensor_event("half", integer(1, 19) + field(4, fixed(0x3555, 2))) +
                           tensor_event("bfloat16", integer(1, 14) + field(4, fixed(0x3f80, 2))) +
                           tensor_event("text", integer(1, 7) + field(8, "words")) +
                           tensor_event("short", integer(1, 2) + field(4, "1234"));
  EXPECT_THAT(scalars_of(file), ElementsAre("float=0.1", "double=0.1", "float_val=2.5", "packed=-3", "integer=-7",
                                            "content=7", "half=0.33325195", "bfloat16=1"));
}

TEST(EventReader, RefusesWrongChecksums) {
  std::string file;
  tune::append_event_scalars(file, kNow, 1, {{"accuracy", 0.5}});
  std::string second = file, error;
  second[20] = static_cast<char>(second[20] ^ 1);
  EXPECT_THAT(scalars_of(file + second + file, 1 << 20, &error), ElementsAre("accuracy=0.5"));
  EXPECT_THAT(error, HasSubstr("checksum of the event at byte " + std::to_string(file.size()) + " is wrong"));
  second = file;
  second[0] = static_cast<char>(second[0] ^ 1);
  EXPECT_THAT(scalars_of(second, 1 << 20, &error), IsEmpty());
  EXPECT_THAT(error, HasSubstr("checksum of the record at byte 0"));
  EXPECT_THAT(scalars_of("this is no event file, but a text", 1 << 20, &error), IsEmpty());
}

TEST(EventReader, SkipsLongRecords) {
  std::string file, next;
  tune::append_event_scalars(next, kNow, 1, {{"accuracy", 0.5}});
  const std::string length = fixed(kEventBytesMax + 1, 8);
  file = length + masked(length) + std::string(kEventBytesMax + 1, 'x') + "CRC!" + next;
  for (const size_t piece : {1U << 20, 1U << 30}) EXPECT_THAT(scalars_of(file, piece), ElementsAre("accuracy=0.5"));
}

TEST(EventReader, ReadsAnyBytes) {
  std::mt19937 random(11);
  std::string file;
  tune::append_event_scalars(file, kNow, 1, {{"accuracy", 0.5}, {"loss", 3}});
  file += tensor_event("float", integer(1, 1) + field(4, fixed(0, 4)));
  for (int round = 0; round < 3000; ++round) {
    // Valid frames around an event with changed bytes, so that the parser gets them.
    std::string event =
        field(5, field(1, field(1, "accuracy") + field(8, integer(1, random() % 20) + field(5, "12345678"))));
    for (int i = 0; i < 3; ++i) event[random() % event.size()] = static_cast<char>(random());
    scalars_of(record(event.substr(0, random() % (event.size() + 1))) + file);
    std::string changed = file;
    changed[random() % changed.size()] = static_cast<char>(random());
    EXPECT_EQ(scalars_of(changed, 3), scalars_of(changed));
  }
}

TEST(EventReader, NamesMetricsByTagAndFolder) {
  const std::vector<std::string> metrics{"train/accuracy", "validation/accuracy", "loss"};
  const auto of = [&](const char* tag, const char* folder, bool as_katib = false) {
    return metrics_of_tag(tag, folder, metrics, as_katib);
  };
  EXPECT_THAT(of("accuracy", "/logs/train"), ElementsAre("train/accuracy"));
  EXPECT_THAT(of("accuracy", "validation"), ElementsAre("validation/accuracy"));
  EXPECT_THAT(of("accuracy_1", "/logs/train"), ElementsAre("train/accuracy"));
  EXPECT_THAT(of("validation/accuracy", "/logs"), ElementsAre("validation/accuracy")) << "as PyTorch's writer has it";
  EXPECT_THAT(of("loss", "/logs/train"), ElementsAre("loss"));
  EXPECT_THAT(of("accuracy", "/logs"), IsEmpty());
  EXPECT_THAT(of("accuracy", "/logs/pretrain"), IsEmpty());
  EXPECT_THAT(of("loss_of_weights", "/logs"), IsEmpty());
  EXPECT_THAT(of("accuracy", "/logs/pretrain", true), ElementsAre("train/accuracy"));
  EXPECT_THAT(of("loss_of_weights", "/logs", true), ElementsAre("loss"));
  EXPECT_THAT(of("validation/accuracy", "/logs", true), IsEmpty());
}

TEST(PrometheusText, ReadsSamples) {
  const std::string text =
      "# HELP accuracy Share of right answers\n# TYPE accuracy gauge\n"
      "accuracy{split=\"te}st\\\"\",part=\"a\"} 0.93 1700000000000\naccuracy 0.5\n  Validation_accuracy\t7e-1 \n"
      "loss NaN\nloss +Inf -5\naccuracy_total 3\naccuracy{ 1\naccuracy high\naccuracy 1 2 3\naccuracy 1 x\naccuracy";
  const auto points = read_prometheus_text(text, {"accuracy", "Validation-accuracy", "loss"});
  EXPECT_THAT(points, ElementsAre(MetricPoint{"accuracy", "0.93", 1'700'000'000'000'000'000},
                                  MetricPoint{"accuracy", "0.5", {}}, MetricPoint{"Validation-accuracy", "7e-1", {}},
                                  MetricPoint{"loss", "NaN", {}}, MetricPoint{"loss", "+Inf", -5'000'000}));
}

TEST(PrometheusText, ReadsAnyBytes) {
  std::mt19937 random(3);
  const std::string parts[] = {"accuracy", "{", "}", "\"", "\\", " ", "1", "\n", "#", "="};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      if (random() % 4 != 0) {
        text += parts[random() % std::size(parts)];
      } else {
        text += static_cast<char>(random());
      }
    }
    read_prometheus_text(text, {"accuracy"});
  }
}

}  // namespace
}  // namespace volador::experiments::katib
