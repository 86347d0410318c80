// An SVG page that is drawn upon: shapes by class, so that one style sheet gives them their colours in light and dark
// surroundings. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace volador::tune {

// In CSS pixels. Plots need at least 320 × 240.
struct PlotSize {
  int width = 960;
  int height = 540;
};

struct PlotPoint {
  double x = 0, y = 0;
};

// Text as it may stand in XML, in elements and in attributes: markup is escaped, what is not UTF-8 and characters that
// XML forbids become U+FFFD.
std::string xml_text(std::string_view text);

// Categorical colours (Okabe and Ito, 2008: told apart also by the colour-blind): classes "s0".."s7" for strokes,
// "f0".."f7" for areas.
inline constexpr size_t kColours = 8;
// From the worst, which fades into the page, to the best: "t0".."t8" for strokes, "u0".."u8" for areas.
inline constexpr size_t kShades = 9;

enum class Anchor { kStart, kMiddle, kEnd };

class SvgPage {
 public:
  explicit SvgPage(PlotSize size) : size_(size) {}

  const PlotSize& size() const { return size_; }

  // `style`: class names, "s3 thin". A tip is shown by browsers where the pointer rests on the shape. Points that are
  // not finite break a line.
  void line(PlotPoint from, PlotPoint to, std::string_view style);
  void polyline(const std::vector<PlotPoint>& points, std::string_view style, std::string_view tip = {});
  void polygon(const std::vector<PlotPoint>& points, std::string_view style);
  void rect(PlotPoint corner, double width, double height, std::string_view style, std::string_view tip = {});
  void circle(PlotPoint centre, double radius, std::string_view style, std::string_view tip = {});
  void text(PlotPoint at, std::string_view words, std::string_view style, Anchor anchor = Anchor::kStart, int turned = 0);

  // What is drawn until end_clip() shows inside the rectangle only.
  void begin_clip(PlotPoint corner, double width, double height);
  void end_clip();

  // The whole document. `description`: for readers that do not see it.
  std::string finish(std::string_view title, std::string_view description) const;

 private:
  void close(std::string_view element, std::string_view tip);

  PlotSize size_;
  std::string body_;
  int clips_ = 0;
};

// Roughly, in pixels, at this font size: there is no font here to ask.
double text_width(std::string_view text, double font_size);
// At most so wide, with "…" where it was cut.
std::string fit_text(std::string_view text, double width, double font_size);

}  // namespace volador::tune
