#include "tune/results/tensorboard_events.h"

#include <fmt/format.h>

#include <bit>

#include "runtime/crc32c.h"

namespace volador::tune {
namespace {

// Encoder of a protocol buffer.
class Message {
 public:
  Message& integer(int field, uint64_t value) {
    tag(field, 0);
    varint(value);
    return *this;
  }
  Message& real(int field, double value) {
    tag(field, 1);
    fixed(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  Message& single(int field, float value) {
    tag(field, 5);
    fixed(std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.text_); }
  Message& reals(int field, const std::vector<double>& values) {  // Packed.
    Message all;
    for (const double value : values) all.fixed(std::bit_cast<uint64_t>(value), 8);
    return message(field, all);
  }
  const std::string& text() const { return text_; }

 private:
  void tag(int field, int wire_type) { varint(static_cast<uint64_t>(field << 3 | wire_type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  void fixed(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) text_ += static_cast<char>(value >> (8 * i));
  }
  std::string text_;
};

// A field that Event does not define and readers skip: marks the records whose data exists nowhere else.
constexpr int kMediaMark = 1900;

void append_fixed(std::string& out, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
}

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

void append_record(std::string& out, const Message& event) {
  const size_t start = out.size();
  append_fixed(out, event.text().size(), 8);
  append_fixed(out, masked_crc(std::string_view(out).substr(start)), 4);
  out += event.text();
  append_fixed(out, masked_crc(event.text()), 4);
}

double seconds(WallTime time) {
  // Converted separately, since nanoseconds since 1970 need more than 53 bits.
  const auto whole = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch());
  return static_cast<double>(whole.count()) + std::chrono::duration<double>(time.time_since_epoch() - whole).count();
}

Message event_at(WallTime now) { return Message().real(1, seconds(now)); }

// Summary.Value without data: the dashboard reads only the metadata; the tensor of one zero is for readers that require
// one.
void append_hparams(std::string& out, WallTime now, std::string_view tag, const Message& data) {
  const Message metadata = Message().message(1, Message().bytes(1, "hparams").bytes(2, data.text()));
  const Message shape = Message().message(2, Message().integer(1, 1));
  const Message tensor = Message().integer(1, 1).message(2, shape).single(5, 0);
  const Message value = Message().bytes(1, tag).message(9, metadata).message(8, tensor);
  append_record(out, event_at(now).message(5, Message().message(1, value)));
}

// google.protobuf.Value
Message parameter(const Config& value) {
  switch (value.kind()) {
    case Config::Kind::kBoolean:
      return Message().integer(4, value.boolean());
    case Config::Kind::kInteger:
    case Config::Kind::kReal:
      return Message().real(2, value.real());
    default:
      return Message().bytes(3, to_text(value));
  }
}

}  // namespace

std::string event_file_name(WallTime created, std::string_view trial) {
  return fmt::format("events.out.tfevents.{:010}.{}", static_cast<int64_t>(seconds(created)), trial);
}

void append_event_version(std::string& out, WallTime now) {
  append_record(out, event_at(now).bytes(3, "brain.Event:2"));
}

void append_event_scalars(std::string& out, WallTime now, int64_t step, const Metrics& metrics) {
  Message summary;
  for (const auto& [name, value] : metrics) {
    if (name == "training_iteration") continue;
    summary.message(1, Message().bytes(1, name).single(2, static_cast<float>(value)));
  }
  append_record(out, event_at(now).integer(2, static_cast<uint64_t>(step)).message(5, summary));
}

std::string event_histogram(std::string_view name, const Histogram& histogram) {
  Message histo;
  histo.real(1, histogram.min)
      .real(2, histogram.max)
      .real(3, static_cast<double>(histogram.count))
      .real(4, histogram.sum);
  histo.real(5, histogram.sum_squares).reals(6, histogram.limits).reals(7, histogram.counts);
  return Message().bytes(1, name).message(5, histo).text();
}

std::string event_image(std::string_view name, const Image& image) {
  Message picture;
  picture.integer(1, static_cast<uint64_t>(image.height())).integer(2, static_cast<uint64_t>(image.width()));
  picture.integer(3, static_cast<uint64_t>(image.channels())).bytes(4, image.png());
  return Message().bytes(1, name).message(4, picture).text();
}

void append_event_values(std::string& out, WallTime now, int64_t step, const std::vector<std::string>& values) {
  Message summary;
  for (const std::string& value : values) summary.bytes(1, value);
  append_record(out, event_at(now).integer(2, static_cast<uint64_t>(step)).message(5, summary).bytes(kMediaMark, "1"));
}

std::string media_events_of(std::string_view file) {
  constexpr size_t kFrame = 16;  // Length and checksum before the message, checksum after it.
  std::string out;
  const std::string mark = Message().bytes(kMediaMark, "1").text();
  while (file.size() >= kFrame) {
    uint64_t length = 0;
    for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<uint8_t>(file[i]);
    if (length > file.size() - kFrame) break;
    if (file.substr(12, length).ends_with(mark)) out += file.substr(0, kFrame + length);
    file.remove_prefix(kFrame + length);
  }
  return out;
}

void append_event_session_start(std::string& out, WallTime now, std::string_view trial, const Config& config) {
  Message start;
  for (const auto& [path, value] : config.flatten())
    start.message(1, Message().bytes(1, path).message(2, parameter(value)));
  start.bytes(4, trial).real(5, seconds(now));
  append_hparams(out, now, "_hparams_/session_start_info", Message().integer(1, 0).message(3, start));
}

void append_event_session_end(std::string& out, WallTime now, bool success) {
  const Message end = Message().integer(1, success ? 1 : 2).real(2, seconds(now));
  append_hparams(out, now, "_hparams_/session_end_info", Message().integer(1, 0).message(4, end));
}

}  // namespace volador::tune
