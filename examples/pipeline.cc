// Image pipeline on stored arrays: a picture is put once, tasks blur and sharpen it in parallel, and one task compares
// the results. The arrays are in shared memory: each step reads them in place, and only references are sent.
// Usage: pipeline [side]   The picture's side in pixels; 512 by default.
#include <fmt/format.h>
#include <volador/volador.h>

#include <cmath>
#include <cstdlib>

using Image = volador::Array<float>;

struct Size {
  int width = 0;
  int height = 0;
};
VOLADOR_FIELDS(Size, width, height);

float at(const Image& image, Size size, int x, int y) {
  x = std::clamp(x, 0, size.width - 1);
  y = std::clamp(y, 0, size.height - 1);
  return image[static_cast<size_t>(y) * static_cast<size_t>(size.width) + static_cast<size_t>(x)];
}

// Mean over a square of 2 * radius + 1 pixels, computed in the memory of the result.
volador::Ref<Image> blur(const Image& image, Size size, int radius) {
  volador::ArrayDraft<float> out(image.size());
  size_t pixel = 0;
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      float sum = 0;
      for (int dy = -radius; dy <= radius; ++dy) {
        for (int dx = -radius; dx <= radius; ++dx) sum += at(image, size, x + dx, y + dy);
      }
      out.span()[pixel++] = sum / static_cast<float>((2 * radius + 1) * (2 * radius + 1));
    }
  }
  return std::move(out).put();
}

volador::Ref<Image> sharpen(const Image& image, const volador::Ref<Image>& blurred) {
  const Image soft = blurred.get();
  volador::ArrayDraft<float> out(image.size());
  for (size_t i = 0; i < image.size(); ++i) out.span()[i] = image[i] + (image[i] - soft[i]);
  return std::move(out).put();
}

double distance(const Image& a, const volador::Ref<Image>& other) {
  const Image b = other.get();
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  const int side = argc > 1 ? std::atoi(argv[1]) : 512;
  if (side < 1) throw std::invalid_argument("side: expected at least 1 pixel");
  const Size size{side, side};

  volador::ArrayDraft<float> rings(static_cast<size_t>(side) * static_cast<size_t>(side));
  for (size_t i = 0; i < rings.span().size(); ++i) {
    const double x = static_cast<double>(i % static_cast<size_t>(side)) / side - 0.5;
    const double y = static_cast<double>(i / static_cast<size_t>(side)) / side - 0.5;
    rings.span()[i] = static_cast<float>(0.5 + 0.5 * std::sin(80 * std::hypot(x, y)));
  }
  const volador::Ref<Image> picture = std::move(rings).put();

  std::vector<volador::Future<volador::Ref<Image>>> blurred;
  for (int radius : {1, 2, 4}) blurred.push_back(volador::task<&blur>(picture, size, radius).submit());
  for (size_t i = 0; i < blurred.size(); ++i) {
    const auto sharp = volador::task<&sharpen>(picture, blurred[i]).submit();
    fmt::print("radius {}: blurring changes a pixel by {:.3f}, sharpening by {:.3f}\n", 1 << i,
               volador::task<&distance>(picture, blurred[i]).submit().get(),
               volador::task<&distance>(picture, sharp).submit().get());
  }
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
