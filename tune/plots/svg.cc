#include "tune/plots/svg.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "tune/display/progress_table.h"

namespace volador::tune {
namespace {

// Colours are plain rules instead of variables, so that programs other than browsers draw the light ones.
constexpr std::string_view kStyle = R"(
svg{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Noto Sans CJK SC",sans-serif;font-size:12px}
.page{fill:#fff}.ink{fill:#1c2430}.soft{fill:#5b6675}.title{font-size:16px;font-weight:600}.bold{font-weight:600}.small{font-size:11px}
.grid{stroke:#e6e9ee;stroke-width:1}.axis{stroke:#9aa5b4;stroke-width:1}.faint{stroke:#8a94a3}.wash{fill:#8a94a3;fill-opacity:.14}.edge{stroke:#fff;stroke-width:1}
.ink-line{stroke:#1c2430}
polyline,line{fill:none;stroke-linejoin:round;stroke-linecap:round}
.thick{stroke-width:2.5}.mid{stroke-width:1.6}.thin{stroke-width:1}.dash{stroke-dasharray:5 4}
.o1{opacity:.12}.o2{opacity:.25}.o4{opacity:.45}.o7{opacity:.7}.o8{opacity:.9}.band{fill-opacity:.16}
.s0{stroke:#0072b2}.s1{stroke:#d55e00}.s2{stroke:#009e73}.s3{stroke:#b65f93}.s4{stroke:#56b4e9}.s5{stroke:#e69f00}.s6{stroke:#6f4fa0}.s7{stroke:#8c8c8c}
.f0{fill:#0072b2}.f1{fill:#d55e00}.f2{fill:#009e73}.f3{fill:#b65f93}.f4{fill:#56b4e9}.f5{fill:#e69f00}.f6{fill:#6f4fa0}.f7{fill:#8c8c8c}
.t0{stroke:#dfe4ec}.t1{stroke:#ccd8e6}.t2{stroke:#b4cbe0}.t3{stroke:#98bcd9}.t4{stroke:#76a9d0}.t5{stroke:#5293c4}.t6{stroke:#327bb4}.t7{stroke:#17609c}.t8{stroke:#08407a}
.u0{fill:#dfe4ec}.u1{fill:#ccd8e6}.u2{fill:#b4cbe0}.u3{fill:#98bcd9}.u4{fill:#76a9d0}.u5{fill:#5293c4}.u6{fill:#327bb4}.u7{fill:#17609c}.u8{fill:#08407a}
@media (prefers-color-scheme:dark){
.page{fill:#12161c}.ink{fill:#e6eaf0}.soft{fill:#98a4b3}.grid{stroke:#262d37}.axis{stroke:#566272}.faint{stroke:#7b8797}.wash{fill:#7b8797;fill-opacity:.2}.edge{stroke:#12161c}
.ink-line{stroke:#e6eaf0}
.s0{stroke:#4aa8e0}.s1{stroke:#ff8a3d}.s2{stroke:#2cc79a}.s3{stroke:#df8fc0}.s4{stroke:#8fd0f5}.s5{stroke:#f3bb3f}.s6{stroke:#ad92db}.s7{stroke:#a3a3a3}
.f0{fill:#4aa8e0}.f1{fill:#ff8a3d}.f2{fill:#2cc79a}.f3{fill:#df8fc0}.f4{fill:#8fd0f5}.f5{fill:#f3bb3f}.f6{fill:#ad92db}.f7{fill:#a3a3a3}
.t0{stroke:#27303b}.t1{stroke:#2a3b4d}.t2{stroke:#2c4861}.t3{stroke:#2e5778}.t4{stroke:#326a93}.t5{stroke:#3d80b0}.t6{stroke:#5599ca}.t7{stroke:#7db6e0}.t8{stroke:#b5dcf7}
.u0{fill:#27303b}.u1{fill:#2a3b4d}.u2{fill:#2c4861}.u3{fill:#2e5778}.u4{fill:#326a93}.u5{fill:#3d80b0}.u6{fill:#5599ca}.u7{fill:#7db6e0}.u8{fill:#b5dcf7}
}
)";

bool finite(PlotPoint point) { return std::isfinite(point.x) && std::isfinite(point.y); }

std::string coordinates(const std::vector<PlotPoint>& points, size_t from, size_t to) {
  std::string text;
  for (size_t i = from; i < to; ++i)
    text += fmt::format("{}{:.1f},{:.1f}", i == from ? "" : " ", points[i].x, points[i].y);
  return text;
}

// Returns the length of the UTF-8 sequence at the front; 0: invalid, or a character that XML forbids.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 || byte(0) == '\n' || byte(0) == '\t' ? 1 : 0;
  const size_t length = byte(0) >= 0xF5 ? 0 : byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : byte(0) >= 0xC2 ? 2 : 0;
  if (length == 0 || length > text.size()) return 0;
  uint32_t point = byte(0) & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  const bool forbidden = (point >= 0xD800 && point <= 0xDFFF) || point == 0xFFFE || point == 0xFFFF || point > 0x10FFFF;
  return overlong || forbidden ? 0 : length;
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    const std::string_view one = text.substr(0, std::max<size_t>(length, 1));
    text.remove_prefix(one.size());
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (one == "&") {
      out += "&amp;";
    } else if (one == "<") {
      out += "&lt;";
    } else if (one == ">") {
      out += "&gt;";
    } else if (one == "\"") {
      out += "&quot;";
    } else {
      out += one;
    }
  }
  return out;
}

void SvgPage::close(std::string_view element, std::string_view tip) {
  if (tip.empty()) {
    body_ += "/>\n";
  } else {
    body_ += fmt::format("><title>{}</title></{}>\n", xml_text(tip), element);
  }
}

void SvgPage::line(PlotPoint from, PlotPoint to, std::string_view style) {
  if (!finite(from) || !finite(to)) return;
  body_ += fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="{}"/>)", from.x, from.y, to.x,
                       to.y, style) +
           "\n";
}

void SvgPage::polyline(const std::vector<PlotPoint>& points, std::string_view style, std::string_view tip) {
  for (size_t from = 0; from < points.size();) {
    size_t to = from;
    while (to < points.size() && finite(points[to])) ++to;
    if (to - from > 1) {
      body_ += fmt::format(R"(<polyline points="{}" class="{}")", coordinates(points, from, to), style);
      close("polyline", tip);
    }
    from = to + 1;
  }
}

void SvgPage::polygon(const std::vector<PlotPoint>& points, std::string_view style) {
  for (const PlotPoint& point : points) {
    if (!finite(point)) return;
  }
  if (points.size() > 2)
    body_ += fmt::format(R"(<polygon points="{}" class="{}"/>)", coordinates(points, 0, points.size()), style) + "\n";
}

void SvgPage::rect(PlotPoint corner, double width, double height, std::string_view style, std::string_view tip) {
  if (!finite(corner) || !std::isfinite(width) || !std::isfinite(height)) return;
  body_ += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="1.5" class="{}")", corner.x,
                       corner.y, std::max(width, 0.0), std::max(height, 0.0), style);
  close("rect", tip);
}

void SvgPage::circle(PlotPoint centre, double radius, std::string_view style, std::string_view tip) {
  if (!finite(centre)) return;
  body_ += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="{:.1f}" class="{}")", centre.x, centre.y, radius, style);
  close("circle", tip);
}

void SvgPage::text(PlotPoint at, std::string_view words, std::string_view style, Anchor anchor, int turned) {
  const char* const anchors[] = {"start", "middle", "end"};
  const std::string turn =
      turned == 0 ? "" : fmt::format(R"x( transform="rotate({} {:.1f} {:.1f})")x", turned, at.x, at.y);
  body_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}"{}>{}</text>)", at.x, at.y,
                       anchors[static_cast<int>(anchor)], style, turn, xml_text(words)) +
           "\n";
}

void SvgPage::begin_clip(PlotPoint corner, double width, double height) {
  ++clips_;
  body_ +=
      fmt::format(
          R"x(<clipPath id="clip{0}"><rect x="{1:.1f}" y="{2:.1f}" width="{3:.1f}" height="{4:.1f}"/></clipPath><g clip-path="url(#clip{0})">)x",
          clips_, corner.x, corner.y, width, height) +
      "\n";
}
void SvgPage::end_clip() { body_ += "</g>\n"; }

std::string SvgPage::finish(std::string_view title, std::string_view description) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-labelledby=\"plot-title plot-text\">\n<title id=\"plot-title\">{2}</title>\n<desc "
      "id=\"plot-text\">{3}</desc>\n"
      "<style>{4}</style>\n<rect width=\"{0}\" height=\"{1}\" class=\"page\"/>\n{5}</svg>\n",
      size_.width, size_.height, xml_text(title), xml_text(description), kStyle, body_);
}

double text_width(std::string_view text, double font_size) { return 0.56 * font_size * display_width(text); }

std::string fit_text(std::string_view text, double width, double font_size) {
  return cut_to_width(text, std::max(1, static_cast<int>(width / (0.56 * font_size))));
}

}  // namespace volador::tune
