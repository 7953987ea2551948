// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "tools/perf/chart.hpp"
#include "tools/perf/xml_text.hpp"

namespace hbmwire::tools::perf {
namespace {

constexpr double kWidth = 860;
constexpr double kHeight = 520;
constexpr double kLeft = 80;
constexpr double kRight = 20;
constexpr double kTop = 64;
constexpr double kBottom = 92;  // sizes, their label, and the key below
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;

struct Look {
  std::string_view colour;
  std::string_view dashes;  // stroke-dasharray
  bool dots = true;
};

Look look_of(Series::Role role) {
  switch (role) {
    case Series::Role::main:
      return {"#0b5fa5", "none", true};
    case Series::Role::second:
      return {"#d9730d", "none", true};
    case Series::Role::limit:
      return {"#8a1c1c", "6 4", false};
    case Series::Role::saved:
      return {"#888888", "2 3", true};
  }
  return {};
}

struct Text {
  double x = 0;
  double y = 0;
  std::string_view anchor = "middle";
  unsigned size = 12;
  std::string_view more = "";  // more attributes, each after a blank
};

class Svg {
 public:
  explicit Svg(const Chart& chart)
      : chart_(chart), values_(value_axis(chart)), sizes_(size_axis(chart)) {}

  std::string draw() {
    out_ = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\">\n"
        "<title>{2}</title>\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
        kWidth, kHeight, xml_text(chart_.title));
    text({.x = kLeft, .y = 26, .anchor = "start", .size = 18, .more = ""}, chart_.title);
    text({.x = kLeft, .y = 46, .anchor = "start", .size = 12, .more = " fill=\"#555555\""},
         chart_.subtitle);
    draw_values();
    draw_sizes();
    for (const Series& series : chart_.series) draw_series(series);
    draw_key();
    return out_ + "</svg>\n";
  }

 private:
  [[nodiscard]] double x_of(double size) const { return kLeft + sizes_.place(size) * kPlotWidth; }

  [[nodiscard]] double y_of(double value) const {
    return kTop + (1 - values_.place(value)) * kPlotHeight;
  }

  void text(const Text& at, std::string_view what) {
    out_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\"{}>{}</text>\n", at.x,
        at.y, at.anchor, at.size, at.more, xml_text(what));
  }

  void line(double x1, double y1, double x2, double y2, std::string_view colour) {
    out_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1,
        x2, y2, colour);
  }

  void draw_values() {
    for (const double mark : values_.marks) {
      line(kLeft, y_of(mark), kLeft + kPlotWidth, y_of(mark), "#dddddd");
      text({.x = kLeft - 8, .y = y_of(mark) + 4, .anchor = "end", .size = 12, .more = ""},
           mark_text(mark));
    }
    line(kLeft, kTop, kLeft, kTop + kPlotHeight, "#000000");
    const double middle = kTop + kPlotHeight / 2;
    const std::string turned = fmt::format(" transform=\"rotate(-90 22 {:.1f})\"", middle);
    text({.x = 22, .y = middle, .anchor = "middle", .size = 13, .more = turned},
         fmt::format("{} [{}]", chart_.figure, chart_.unit));
  }

  void draw_sizes() {
    constexpr double kLeastApart = 30;  // pixels between two labels
    const double bottom = kTop + kPlotHeight;
    double last = -kLeastApart;
    for (const double size : sizes_.marks) {
      const double x = x_of(size);
      line(x, bottom, x, bottom + 4, "#000000");
      if (x - last < kLeastApart) continue;
      last = x;
      text({.x = x, .y = bottom + 18, .anchor = "middle", .size = 12, .more = ""},
           short_size_text(static_cast<std::uint64_t>(size)));
    }
    line(kLeft, bottom, kLeft + kPlotWidth, bottom, "#000000");
    text(
        {.x = kLeft + kPlotWidth / 2, .y = bottom + 40, .anchor = "middle", .size = 13, .more = ""},
        "message size [bytes]");
  }

  void draw_series(const Series& series) {
    const Look look = look_of(series.role);
    std::string points;
    for (const Point& point : series.points) {
      if (!values_.holds(point.value)) continue;
      points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ",
                            x_of(static_cast<double>(point.size_bytes)), y_of(point.value));
    }
    out_ += fmt::format(
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\" "
        "points=\"{}\"/>\n",
        look.colour, look.dashes, points);
    if (!look.dots) return;
    for (const Point& point : series.points)
      out_ += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: {:.4g} {}</title>"
          "</circle>\n",
          x_of(static_cast<double>(point.size_bytes)), y_of(point.value), look.colour,
          short_size_text(point.size_bytes), point.value, xml_text(chart_.unit));
  }

  void draw_key() {
    constexpr double kSample = 28;
    constexpr double kCharacter = 6.6;  // about the width of a character of 12 pixels
    const double y = kHeight - 18;
    double x = kLeft;
    for (const Series& series : chart_.series) {
      const Look look = look_of(series.role);
      out_ += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
          "stroke-width=\"2\" stroke-dasharray=\"{}\"/>\n",
          x, y - 4, x + kSample, y - 4, look.colour, look.dashes);
      text({.x = x + kSample + 6, .y = y, .anchor = "start", .size = 12, .more = ""}, series.name);
      x += kSample + 26 + kCharacter * static_cast<double>(series.name.size());
    }
  }

  const Chart& chart_;
  Axis values_;
  Axis sizes_;
  std::string out_;
};

}  // namespace

std::string svg_of(const Chart& chart) { return Svg(chart).draw(); }

}  // namespace hbmwire::tools::perf
