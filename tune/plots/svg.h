// Builder of an SVG page; shapes have classes, so that one style sheet colours them for light and dark backgrounds.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace volador::tune {

// CSS pixels. Plots need at least 320 × 240.
struct PlotSize {
  int width = 960;
  int height = 540;
};

struct PlotPoint {
  double x = 0, y = 0;
};

// Escapes text for XML elements and attributes: invalid UTF-8 and characters that XML forbids become U+FFFD.
std::string xml_text(std::string_view text);

// Categorical colours that are distinguishable with colour-vision deficiency (Okabe and Ito, 2008): classes "s0".."s7"
// for strokes, "f0".."f7" for areas.
inline constexpr size_t kColours = 8;
// From the worst, which blends with the page, to the best: "t0".."t8" for strokes, "u0".."u8" for areas.
inline constexpr size_t kShades = 9;

enum class Anchor { kStart, kMiddle, kEnd };

class SvgPage {
 public:
  explicit SvgPage(PlotSize size) : size_(size) {}

  const PlotSize& size() const { return size_; }

  // `style`: class names, for example "s3 thin". `tip`: tooltip. Points that are not finite interrupt a line.
  void line(PlotPoint from, PlotPoint to, std::string_view style);
  void polyline(const std::vector<PlotPoint>& points, std::string_view style, std::string_view tip = {});
  void polygon(const std::vector<PlotPoint>& points, std::string_view style);
  void rect(PlotPoint corner, double width, double height, std::string_view style, std::string_view tip = {});
  void circle(PlotPoint centre, double radius, std::string_view style, std::string_view tip = {});
  void text(PlotPoint at, std::string_view words, std::string_view style, Anchor anchor = Anchor::kStart,
            int turned = 0);

  // Clips shapes to the rectangle until end_clip().
  void begin_clip(PlotPoint corner, double width, double height);
  void end_clip();

  // Returns the whole document. `description`: for screen readers.
  std::string finish(std::string_view title, std::string_view description) const;

 private:
  void close(std::string_view element, std::string_view tip);

  PlotSize size_;
  std::string body_;
  int clips_ = 0;
};

// Estimates the width in pixels at this font size; no font metrics are available here.
double text_width(std::string_view text, double font_size);
// Truncates with "…" to the given width.
std::string fit_text(std::string_view text, double width, double font_size);

}  // namespace volador::tune
