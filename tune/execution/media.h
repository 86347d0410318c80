// Histograms and images of a trial for TensorBoard, reported along with the metrics of a step:
//
//   tune::add_histogram("weights", model.weights());
//   tune::add_image("sample", tune::Image::grey(28, 28, pixels));
//   return {{"loss", loss}};                                       // Or tune::report({{"loss", loss}});
//
// They are written to the trial's event file, at the step reported next, and are not in the journal or result.json. The
// trial's page on the dashboard reads them from there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::tune {

// Distribution of values in buckets of equal width. NaN and infinities are ignored.
struct Histogram {
  static constexpr int kBuckets = 30;
  static Histogram of(const double* values, size_t count);
  static Histogram of(const float* values, size_t count);

  double min = 0, max = 0;  // Range of the counted values; 0 if there are none.
  double sum = 0, sum_squares = 0;
  int64_t count = 0;
  std::vector<double> limits;  // Upper bound of each bucket, ascending.
  std::vector<double> counts;  // One per bucket.
};

// An image as a PNG file. Rows from the top, pixels from the left, interleaved channels of 8 bits.
class Image {
 public:
  static constexpr int64_t kSideMax = 16'384;
  // Throw volador::Exception(kInvalidArgument): a size out of range, or a wrong number of pixels.
  static Image grey(int64_t width, int64_t height, const std::vector<uint8_t>& pixels) {
    return made(width, height, 1, pixels);
  }
  static Image rgb(int64_t width, int64_t height, const std::vector<uint8_t>& pixels) {
    return made(width, height, 3, pixels);
  }
  static Image rgba(int64_t width, int64_t height, const std::vector<uint8_t>& pixels) {
    return made(width, height, 4, pixels);
  }
  // From values in [0, 1]; others are clamped.
  static Image grey(int64_t width, int64_t height, const std::vector<float>& values);

  int64_t width() const { return width_; }
  int64_t height() const { return height_; }
  int channels() const { return channels_; }
  const std::string& png() const { return png_; }

 private:
  static Image made(int64_t width, int64_t height, int channels, const std::vector<uint8_t>& pixels);
  int64_t width_ = 0, height_ = 0;
  int channels_ = 1;
  std::string png_;
};

// To be called on the thread of a trial's function or class; otherwise they throw volador::Exception(kUnavailable).
// kInvalidArgument: an empty name, or more than kMediaBytesMax in one step in total.
inline constexpr size_t kMediaBytesMax = size_t{16} << 20;
void add_histogram(std::string_view name, const std::vector<double>& values);
void add_histogram(std::string_view name, const std::vector<float>& values);
void add_histogram(std::string_view name, const Histogram& histogram);
void add_image(std::string_view name, const Image& image);

}  // namespace volador::tune
