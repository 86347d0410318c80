#include "experiments/katib/event_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "runtime/crc32c.h"

namespace volador::experiments::katib {
namespace {

constexpr size_t kHeadBytes = 12, kTailBytes = 4;

uint64_t event_integer(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

uint32_t masked_checksum(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// The fields of a protocol buffer, one after the other.
class EventFields {
 public:
  explicit EventFields(std::string_view bytes) : rest_(bytes) {}

  int number = 0;
  uint64_t integer = 0;    // The value of a varint or a fixed field.
  std::string_view bytes;  // The value of any other field.

  // False: it ends, or is no protocol buffer from here on.
  bool next() {
    uint64_t key = 0;
    if (rest_.empty() || !varint(key)) return false;
    number = static_cast<int>(std::min<uint64_t>(key >> 3, 1U << 29));
    wire_type_ = static_cast<int>(key & 7);
    switch (wire_type_) {
      case 0:
        return varint(integer);
      case 1:
        return fixed(8);
      case 2: {
        uint64_t size = 0;
        if (!varint(size) || size > rest_.size()) return false;
        bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
      }
      case 5:
        return fixed(4);
      default:
        return false;
    }
  }
  bool is_integer(int of) const { return number == of && wire_type_ == 0; }
  bool is_bytes(int of) const { return number == of && wire_type_ == 2; }
  bool is_double(int of) const { return number == of && wire_type_ == 1; }
  bool is_float(int of) const { return number == of && wire_type_ == 5; }

 private:
  bool varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool fixed(size_t size) {
    if (size > rest_.size()) return false;
    integer = event_integer(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  int wire_type_ = 0;
};

std::string text_of_float(float value) { return fmt::format("{}", value); }
std::string text_of_double(double value) { return fmt::format("{}", value); }

float float_of_half(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  float value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? HUGE_VALF : std::nanf("");
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// tensorflow.DataType.
enum TensorType : int {
  kFloatType = 1,
  kDoubleType = 2,
  kInt32Type = 3,
  kInt64Type = 9,
  kBfloat16Type = 14,
  kHalfType = 19
};

// The one number of a tensor's bytes.
std::optional<std::string> number_in_content(int type, std::string_view content) {
  const uint64_t bits = event_integer(content.substr(0, 8));
  const auto sized = [&](size_t size) { return content.size() == size; };
  switch (type) {
    case kFloatType:
      return sized(4) ? std::optional(text_of_float(std::bit_cast<float>(static_cast<uint32_t>(bits)))) : std::nullopt;
    case kDoubleType:
      return sized(8) ? std::optional(text_of_double(std::bit_cast<double>(bits))) : std::nullopt;
    case kInt32Type:
      return sized(4) ? std::optional(fmt::format("{}", static_cast<int32_t>(static_cast<uint32_t>(bits))))
                      : std::nullopt;
    case kInt64Type:
      return sized(8) ? std::optional(fmt::format("{}", static_cast<int64_t>(bits))) : std::nullopt;
    case kHalfType:
      return sized(2) ? std::optional(text_of_float(float_of_half(static_cast<uint16_t>(bits)))) : std::nullopt;
    case kBfloat16Type:
      return sized(2) ? std::optional(text_of_float(std::bit_cast<float>(static_cast<uint32_t>(bits << 16))))
                      : std::nullopt;
    default:
      return std::nullopt;
  }
}

// The number of a TensorProto with one element.
std::optional<std::string> number_in_tensor(std::string_view tensor) {
  int type = 0;
  std::string_view content;
  std::vector<std::string> numbers;
  const auto floats = [&](std::string_view packed) {
    for (; packed.size() >= 4 && numbers.size() < 2; packed.remove_prefix(4))
      numbers.push_back(text_of_float(std::bit_cast<float>(static_cast<uint32_t>(event_integer(packed.substr(0, 4))))));
  };
  const auto doubles = [&](std::string_view packed) {
    for (; packed.size() >= 8 && numbers.size() < 2; packed.remove_prefix(8))
      numbers.push_back(text_of_double(std::bit_cast<double>(event_integer(packed.substr(0, 8)))));
  };
  const auto integer_text = [&](uint64_t value) {
    if (type == kHalfType) return text_of_float(float_of_half(static_cast<uint16_t>(value)));
    if (type == kBfloat16Type) return text_of_float(std::bit_cast<float>(static_cast<uint32_t>(value << 16)));
    return fmt::format("{}", static_cast<int64_t>(value));
  };
  for (EventFields fields(tensor); fields.next();) {
    if (fields.is_integer(1)) type = static_cast<int>(fields.integer);
    if (fields.is_bytes(4)) content = fields.bytes;
    if (fields.is_float(5))
      numbers.push_back(text_of_float(std::bit_cast<float>(static_cast<uint32_t>(fields.integer))));
    if (fields.is_bytes(5)) floats(fields.bytes);
    if (fields.is_double(6)) numbers.push_back(text_of_double(std::bit_cast<double>(fields.integer)));
    if (fields.is_bytes(6)) doubles(fields.bytes);
    for (const int integers : {7, 10, 13}) {  // int_val, int64_val, half_val.
      if (fields.is_integer(integers)) numbers.push_back(integer_text(fields.integer));
      if (!fields.is_bytes(integers)) continue;
      // A packed list of varints; one is enough.
      std::string_view packed = fields.bytes;
      uint64_t value = 0;
      for (int shift = 0; shift < 64 && !packed.empty(); shift += 7) {
        const auto byte = static_cast<uint8_t>(packed.front());
        packed.remove_prefix(1);
        value |= static_cast<uint64_t>(byte & 0x7f) << shift;
        if (byte >= 0x80) continue;
        numbers.push_back(integer_text(value));
        if (!packed.empty()) numbers.emplace_back();
        break;
      }
    }
    if (numbers.size() > 1) return std::nullopt;
  }
  if (numbers.size() == 1) return numbers.front();
  return number_in_content(type, content);
}

void scalars_in(std::string_view event, const EventReader::Found& found) {
  double seconds = 0;
  int64_t step = 0;
  std::vector<EventScalar> scalars;
  for (EventFields fields(event); fields.next();) {
    if (fields.is_double(1)) seconds = std::bit_cast<double>(fields.integer);
    if (fields.is_integer(2)) step = static_cast<int64_t>(fields.integer);
    if (!fields.is_bytes(5)) continue;
    for (EventFields values(fields.bytes); values.next();) {
      if (!values.is_bytes(1)) continue;
      EventScalar scalar;
      std::optional<std::string> number;
      for (EventFields value(values.bytes); value.next();) {
        if (value.is_bytes(1)) scalar.tag = value.bytes;
        if (value.is_float(2)) number = text_of_float(std::bit_cast<float>(static_cast<uint32_t>(value.integer)));
        if (value.is_bytes(8)) number = number_in_tensor(value.bytes);
      }
      if (!number || scalar.tag.empty() || scalar.tag.starts_with("_hparams_/")) continue;
      scalar.value = std::move(*number);
      scalars.push_back(std::move(scalar));
    }
  }
  for (EventScalar& scalar : scalars) {
    scalar.seconds = seconds;
    scalar.step = step;
    found(std::move(scalar));
  }
}

// "accuracy_1" is "accuracy", which TensorFlow 1 made unique.
bool is_tag_of(std::string_view tag, std::string_view name) {
  if (!tag.starts_with(name)) return false;
  tag.remove_prefix(name.size());
  if (tag.empty()) return true;
  if (tag.front() != '_' || tag.size() < 2) return false;
  return std::ranges::all_of(tag.substr(1), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<void> EventReader::feed(std::string_view bytes, const Found& found) {
  if (is_broken_) return make_error(ErrorCode::kInvalidArgument, "the records of the event file are broken");
  const auto skipped = static_cast<size_t>(std::min<uint64_t>(skip_, bytes.size()));
  skip_ -= skipped;
  read_ += skipped;
  bytes.remove_prefix(skipped);
  rest_.append(bytes);
  const auto broken = [&](size_t at, const char* what) {
    is_broken_ = true;
    return make_error(ErrorCode::kInvalidArgument, fmt::format("the {} at byte {} is wrong", what, read_ + at));
  };
  std::string_view left = rest_;
  while (left.size() >= kHeadBytes) {
    const size_t at = rest_.size() - left.size();
    if (event_integer(left.substr(8, 4)) != masked_checksum(left.substr(0, 8)))
      return broken(at, "checksum of the record");
    const uint64_t length = event_integer(left.substr(0, 8));
    const uint64_t whole = kHeadBytes + length + kTailBytes;
    if (length > kEventBytesMax) {
      if (length > UINT64_MAX - kHeadBytes - kTailBytes) return broken(at, "length of the record");
      skip_ = whole - std::min<uint64_t>(whole, left.size());
      left.remove_prefix(static_cast<size_t>(std::min<uint64_t>(whole, left.size())));
      continue;
    }
    if (left.size() < whole) break;
    const std::string_view event = left.substr(kHeadBytes, length);
    if (event_integer(left.substr(kHeadBytes + length, kTailBytes)) != masked_checksum(event))
      return broken(at, "checksum of the event");
    scalars_in(event, found);
    left.remove_prefix(whole);
  }
  const size_t done = rest_.size() - left.size();
  read_ += done;
  rest_.erase(0, done);
  return {};
}

std::vector<std::string> metrics_of_tag(std::string_view tag, std::string_view folder,
                                        const std::vector<std::string>& metrics, bool as_katib) {
  std::vector<std::string> out;
  for (const std::string& metric : metrics) {
    const size_t slash = metric.rfind('/');
    const std::string_view parent =
        slash == std::string::npos ? std::string_view() : std::string_view(metric).substr(0, slash);
    const std::string_view name = slash == std::string::npos ? metric : std::string_view(metric).substr(slash + 1);
    if (as_katib) {
      if (tag.starts_with(name) && folder.ends_with(parent)) out.push_back(metric);
      continue;
    }
    const bool is_inside = parent.empty() || folder == parent ||
                           (folder.ends_with(parent) && folder[folder.size() - parent.size() - 1] == '/');
    if (is_tag_of(tag, metric) || (is_inside && is_tag_of(tag, name))) {
      out.push_back(metric);
      break;
    }
  }
  return out;
}

}  // namespace volador::experiments::katib
