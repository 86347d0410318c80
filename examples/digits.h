// The digits data set, embedded in the executable and therefore available on every machine.
#pragma once

#include <cstdint>
#include <vector>

namespace digits {

inline constexpr int kSide = 8;
inline constexpr int kClasses = 10;

struct Images {
  std::vector<float> pixels;    // [images][64], 0 to 1.
  std::vector<int64_t> labels;  // [images], 0 to 9.
};

// A fixed split: the images in an order given by a seed, divided into about 70, 15 and 15 percent.
struct Split {
  Images train;       // 1,257 images.
  Images validation;  // 270; ranks the trials.
  Images test;        // 270; used once, for the best trial.
};
Split load();

}  // namespace digits
