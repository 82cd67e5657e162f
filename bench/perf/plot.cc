// The SVG of a run. Drawn by hand: two polylines a panel do not need a plotting library.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/perf/report.h"

namespace comm::perf {
namespace {

constexpr double kWidth = 760;
constexpr double kPanel = 260;
constexpr double kLeft = 70;
constexpr double kTop = 46;

std::string bytes_label(double bytes) {
  const char* units[] = {"", "K", "M", "G"};
  int unit = 0;
  while (bytes >= 1024 && unit < 3) {
    bytes /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.4g%s", bytes, units[unit]);
  return text;
}

struct Point {
  double bytes;
  double value;
};

struct Series {
  const char* name;
  const char* color;
  std::vector<Point> points;
};

struct Panel {
  const char* title;
  double top;
  bool logarithmic;
  std::vector<Series> series;
};

template <class... Values>
void add(std::string& svg, const char* format, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  svg += text;
}

void draw(std::string& svg, const Panel& panel) {
  double least_x = 1e300;
  double most_x = 1;
  double least_y = 1e300;
  double most_y = 1e-9;
  for (const Series& s : panel.series) {
    for (const Point& p : s.points) {
      least_x = std::min(least_x, p.bytes);
      most_x = std::max(most_x, p.bytes);
      least_y = std::min(least_y, p.value);
      most_y = std::max(most_y, p.value);
    }
  }
  if (least_x > most_x) return;
  const double bottom = panel.top + kPanel - 60;
  const double right = kWidth - 20;
  const double x_range = std::max(1.0, std::log2(most_x) - std::log2(least_x));
  const auto x = [&](double bytes) {
    return kLeft + (std::log2(bytes) - std::log2(least_x)) / x_range * (right - kLeft);
  };
  const double low = panel.logarithmic ? std::floor(std::log10(least_y)) : 0;
  const double high =
      panel.logarithmic ? std::max(low + 1, std::ceil(std::log10(most_y))) : most_y * 1.1;
  const auto y = [&](double value) {
    const double v = panel.logarithmic ? std::log10(value) : value;
    return bottom - (v - low) / (high - low) * (bottom - panel.top);
  };
  add(svg, "<text x='%.0f' y='%.0f' font-weight='bold'>%s</text>\n", kLeft, panel.top - 8,
      panel.title);
  const int lines = panel.logarithmic ? static_cast<int>(high - low) : 4;
  for (int i = 0; i <= lines; ++i) {
    const double v = low + (high - low) * i / lines;
    const double value = panel.logarithmic ? std::pow(10.0, v) : v;
    add(svg, "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#ddd'/>\n", kLeft, right,
        y(value), y(value));
    add(svg, "<text x='%.1f' y='%.1f' text-anchor='end'>%.4g</text>\n", kLeft - 6, y(value) + 4,
        value);
  }
  const double step = std::max(1.0, std::ceil(x_range / 12));
  for (double exponent = std::log2(least_x); exponent <= std::log2(most_x) + 1e-9;
       exponent += step) {
    const double bytes = std::exp2(exponent);
    add(svg, "<text x='%.1f' y='%.1f' text-anchor='middle'>%s</text>\n", x(bytes), bottom + 18,
        bytes_label(bytes).c_str());
  }
  double legend = right;
  for (const Series& s : panel.series) {
    if (s.points.empty()) continue;
    svg += "<polyline fill='none' stroke-width='2' stroke='";
    svg += s.color;
    svg += "' points='";
    for (const Point& p : s.points) add(svg, "%.1f,%.1f ", x(p.bytes), y(p.value));
    svg += "'/>\n";
    for (const Point& p : s.points)
      add(svg, "<circle cx='%.1f' cy='%.1f' r='2.5' fill='%s'/>\n", x(p.bytes), y(p.value),
          s.color);
    add(svg, "<text x='%.1f' y='%.1f' text-anchor='end' fill='%s'>%s</text>\n", legend,
        panel.top - 8, s.color, s.name);
    legend -= 110;
  }
}

}  // namespace

std::string to_svg(const Run& run) {
  Series bandwidth_out{"out of place", "#1f6feb", {}};
  Series bandwidth_in{"in place", "#d1570a", {}};
  Series latency_out{"out of place", "#1f6feb", {}};
  Series latency_in{"in place", "#d1570a", {}};
  for (const Row& row : run.rows) {
    const auto bytes = static_cast<double>(std::max<std::size_t>(row.bytes, 1));
    if (row.out_of_place.measured) {
      bandwidth_out.points.push_back({bytes, row.out_of_place.bus_bandwidth});
      latency_out.points.push_back({bytes, std::max(row.out_of_place.p50, 1e-3)});
    }
    if (row.in_place.measured) {
      bandwidth_in.points.push_back({bytes, row.in_place.bus_bandwidth});
      latency_in.points.push_back({bytes, std::max(row.in_place.p50, 1e-3)});
    }
  }
  std::string svg;
  add(svg,
      "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' font-family='sans-serif' "
      "font-size='12'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
      kWidth, kTop + 2 * kPanel + 20);
  add(svg, "<text x='%.0f' y='20' font-size='15'>%s, %s, %d ranks, %s</text>\n", kLeft,
      run.options.operation.c_str(), run.backend.c_str(), run.ranks, to_string(run.options.type));
  draw(svg, {"bus bandwidth, GB/s", kTop + 10, false, {bandwidth_out, bandwidth_in}});
  draw(svg, {"time (p50), us", kTop + 10 + kPanel, true, {latency_out, latency_in}});
  return svg + "</svg>\n";
}

}  // namespace comm::perf
