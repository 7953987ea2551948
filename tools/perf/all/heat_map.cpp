// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "tools/common/text.hpp"
#include "tools/perf/all/names.hpp"
#include "tools/perf/all/presentation.hpp"
#include "tools/perf/all/statistics.hpp"
#include "tools/perf/table.hpp"
#include "tools/perf/xml_text.hpp"

namespace hbmwire::tools::perf::all {
namespace {

constexpr double kMatrixSide = 720;  // wanted; the squares stay within the next two bounds
constexpr double kMostSquare = 36;
constexpr double kLeastSquare = 4;
constexpr double kLeastLabelStep = 11;  // between labels, whose letters have 10 pixels
constexpr double kHeadHeight = 76;      // title, subtitle, name of the axis
constexpr double kAxisName = 24;
constexpr double kMargin = 20;
constexpr double kKeyWidth = 160;
constexpr double kKeyHeight = 200;
constexpr double kStatesHeight = 130;
constexpr std::size_t kLongestLabel = 40;

struct Rgb {
  double red;
  double green;
  double blue;
};

// From dark to bright, so that it reads in grey, too; red is left to cells without a figure.
constexpr std::array<Rgb, 5> kScale{
    {{38, 12, 84}, {52, 84, 140}, {32, 144, 140}, {112, 200, 96}, {248, 228, 60}}};

std::string colour_at(double share) {
  const double place = std::clamp(share, 0.0, 1.0) * (kScale.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(place), kScale.size() - 2);
  const double part = place - static_cast<double>(low);
  const auto mixed = [&](double Rgb::*channel) {
    return static_cast<int>(
        std::lround(kScale[low].*channel * (1 - part) + kScale[low + 1].*channel * part));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(&Rgb::red), mixed(&Rgb::green),
                     mixed(&Rgb::blue));
}

std::string_view fill_of(CellState state) {
  switch (state) {
    case CellState::unreachable:
      return "#d62728";
    case CellState::broken:
      return "#ff7f0e";
    case CellState::corrupt:
      return "#e352b8";
    default:
      return "#bbbbbb";
  }
}

std::string_view words_in_key(CellState state) {
  return state == CellState::not_measured ? "not measured" : name_of(state);
}

std::string axis_label(const End& end) {
  const std::string label = fmt::format("{} {} {} {}", end.rank, end.host, end.nic, end.memory);
  return label.size() <= kLongestLabel ? label : label.substr(0, kLongestLabel - 3) + "...";
}

/// Draws the pairs.
class HeatMap {
 public:
  HeatMap(const MatrixRun& run, bool gigabits) : run_(run), style_{.gigabits = gigabits} {
    const auto count = static_cast<double>(std::max<std::size_t>(run.ends.size(), 1));
    square_ = std::clamp(std::floor(kMatrixSide / count), kLeastSquare, kMostSquare);
    side_ = square_ * count;
    for (const double rate : rates_of(run.pairs)) most_ = std::max(most_, rate);
    std::size_t longest = 0;
    for (const End& end : run.ends) longest = std::max(longest, axis_label(end).size());
    constexpr double kLetter = 5.8;  // about the width of a letter of 10 pixels
    label_room_ = 8 + kLetter * static_cast<double>(longest);
    left_ = kMargin + kAxisName + label_room_;
    top_ = kHeadHeight + label_room_;
  }

  std::string draw() {
    begin();
    draw_labels();
    for (const Cell& cell : run_.pairs) draw_cell(cell);
    if (most_ > 0) draw_scale();
    draw_states();
    return out_ + "</svg>\n";
  }

 private:
  void begin() {
    constexpr double kTitleWidth = 700;
    const double width = std::max(left_ + side_ + kMargin + kKeyWidth, kTitleWidth);
    const double height = top_ + std::max(side_, kKeyHeight + kStatesHeight) + kMargin;
    const std::string title =
        fmt::format("hbmwire perf --all: {} ranks, {} NICs with a memory{}", run_.ranks,
                    run_.ends.size(), run_.emulated ? " (emulated hardware)" : "");
    out_ = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\">\n<title>{2}</title>\n"
        "<defs><linearGradient id=\"scale\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">\n",
        width, height, xml_text(title));
    for (std::size_t i = 0; i < kScale.size(); ++i) {
      const double share = static_cast<double>(i) / (kScale.size() - 1);
      out_ += fmt::format("<stop offset=\"{:.2f}\" stop-color=\"{}\"/>\n", share, colour_at(share));
    }
    out_ += "</linearGradient></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    text(kMargin, 28, 18, title);
    const double typical = typical_rate(run_);
    text(kMargin, 48, 12,
         fmt::format("pairs, messages of {}; typical {}{}", size_text(run_.message_bytes),
                     typical > 0 ? speed_text(typical, style_) : "not measured",
                     run_.verified ? "" : "; NOT VERIFIED"));
  }

  void text(double x, double y, unsigned size, std::string_view what, std::string_view more = "") {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\"{}>{}</text>\n", x, y,
                        size, more, xml_text(what));
  }

  // Labels that have no room are left out: the tooltips name each end.
  void draw_labels() {
    const double middle = side_ / 2;
    text(left_ + middle, 70, 12, "target", " text-anchor=\"middle\"");
    text(kMargin + 8, top_ + middle, 12, "source",
         fmt::format(" text-anchor=\"middle\" transform=\"rotate(-90 {:.1f} {:.1f})\"", kMargin + 8,
                     top_ + middle));
    double last = -kLeastLabelStep;
    for (std::size_t i = 0; i < run_.ends.size(); ++i) {
      const double place = square_ * static_cast<double>(i);
      if (place - last < kLeastLabelStep) continue;
      last = place;
      const std::string label = axis_label(run_.ends[i]);
      const double baseline = place + square_ / 2 + 4;
      text(left_ - 4, top_ + baseline, 10, label, " text-anchor=\"end\"");
      text(left_ + baseline, top_ - 4, 10, label,
           fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", left_ + baseline, top_ - 4));
    }
  }

  void draw_cell(const Cell& cell) {
    const bool measured = cell.state == CellState::measured;
    const double share = most_ > 0 ? cell.bytes_per_second / most_ : 0;
    const double gap = square_ > 8 ? 1 : 0;  // a gap would dim small squares
    out_ += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill=\"{}\"><title>{}"
        "</title></rect>\n",
        left_ + square_ * static_cast<double>(cell.target),
        top_ + square_ * static_cast<double>(cell.source), square_ - gap, square_ - gap,
        measured ? colour_at(share) : fill_of(cell.state), xml_text(tooltip(cell)));
  }

  [[nodiscard]] std::string tooltip(const Cell& cell) const {
    const std::string way = fmt::format("{} to {}: ", end_text(run_.ends[cell.source]),
                                        end_text(run_.ends[cell.target]));
    if (cell.state != CellState::measured) {
      return way + std::string(words_in_key(cell.state)) +
             (cell.problem.empty() ? "" : ": " + cell.problem);
    }
    std::string figure = speed_text(cell.bytes_per_second, style_);
    if (const auto part = share_of_link(run_, cell))
      figure += fmt::format(", {:.0f}% of the slower link", *part * 100);
    return way + figure;
  }

  void draw_scale() {
    constexpr int kMarks = 4;
    const double x = left_ + side_ + kMargin;
    out_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"{:.0f}\" fill=\"url(#scale)\"/>\n",
        x, top_, kKeyHeight);
    for (int i = 0; i <= kMarks; ++i) {
      const double share = static_cast<double>(i) / kMarks;
      text(x + 22, top_ + (1 - share) * kKeyHeight + 4, 11,
           i == 0 ? "0" : speed_text(share * most_, style_));
    }
  }

  void draw_states() {
    const double x = left_ + side_ + kMargin;
    double y = top_ + kKeyHeight + 24;
    for (const CellState state :
         {CellState::unreachable, CellState::broken, CellState::corrupt, CellState::not_measured}) {
      out_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"16\" fill=\"{}\"/>\n",
                      x, y, fill_of(state));
      text(x + 22, y + 12, 11, words_in_key(state));
      y += 22;
    }
  }

  const MatrixRun& run_;
  Style style_;
  double square_ = 0;
  double side_ = 0;
  double most_ = 0;  ///< the fastest cell: the end of the scale
  double label_room_ = 0;
  double left_ = 0;
  double top_ = 0;
  std::string out_;
};

}  // namespace

std::string heat_map_svg(const MatrixRun& run, bool gigabits) {
  return HeatMap(run, gigabits).draw();
}

}  // namespace hbmwire::tools::perf::all
