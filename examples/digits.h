// The digits data, part of the executable: it is at hand on every machine that the program travels to.
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

// The same every time: the images in an order fixed by a seed, cut into three parts of about 70, 15 and 15 percent.
struct Split {
  Images train;       // 1,257 images.
  Images validation;  // 270; what trials are compared by.
  Images test;        // 270; looked at once, for the best trial.
};
Split load();

}  // namespace digits
