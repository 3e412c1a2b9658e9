// Two SVG plots (weights against thresholds, error by tensor) and a table, as one HTML page.
#include "html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "standard_output.h"
#include "tern/io.h"
#include "tern/version.h"
#include "units.h"

namespace tern::cli {
namespace {

constexpr double kWidth = 900, kHeight = 260, kLeft = 50, kBottom = 30;

std::string html(std::string_view text) {
  std::string out;
  for (const char c : escaped(text, 200)) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string svg_begin(std::string_view label) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, kHeight, label);
}
std::string svg_text(double x, double y, std::string_view text, std::string_view anchor = "middle") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}

// Bars from -4 to 4 scales; those that become 0 are grey.
std::string histogram_svg(const std::vector<std::uint64_t>& bins) {
  const double top = static_cast<double>(*std::max_element(bins.begin(), bins.end()));
  if (top == 0) return "<p>No weights were quantized.</p>\n";
  const double plot = kWidth - kLeft, high = kHeight - kBottom - 10, bar = plot / static_cast<double>(bins.size());
  std::string out = svg_begin("histogram of weights divided by their scale");
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const double at = -4 + 8 * (static_cast<double>(i) + 0.5) / static_cast<double>(bins.size());
    const double height = static_cast<double>(bins[i]) / top * high;
    out += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>\n",
                       std::fabs(at) <= 0.5 ? "zero"
                       : at < 0             ? "minus"
                                            : "plus",
                       kLeft + static_cast<double>(i) * bar, 10 + high - height, bar * 0.9, height);
  }
  for (int unit = -4; unit <= 4; ++unit)
    out += svg_text(kLeft + plot * (unit + 4) / 8, kHeight - 8, std::to_string(unit));
  for (const double threshold : {-0.5, 0.5}) {
    const double x = kLeft + plot * (threshold + 4) / 8;
    out += fmt::format("<line class=\"threshold\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"10\" y2=\"{1:.1f}\"/>\n", x,
                       10 + high);
  }
  return out + "</svg>\n";
}

// A bar for every quantized tensor, in the order of the file.
std::string errors_svg(const std::vector<double>& decibels) {
  if (decibels.empty()) return "";
  const double top = std::max(1.0, *std::max_element(decibels.begin(), decibels.end()));
  const double plot = kWidth - kLeft, high = kHeight - kBottom - 10, bar = plot / static_cast<double>(decibels.size());
  std::string out = svg_begin("SQNR by tensor");
  for (std::size_t i = 0; i < decibels.size(); ++i) {
    const double height = std::max(0.0, decibels[i]) / top * high;
    out += fmt::format("<rect class=\"plus\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>\n",
                       kLeft + static_cast<double>(i) * bar, 10 + high - height, bar * 0.8, height);
  }
  out += svg_text(kLeft - 6, 18, fmt::format("{:.1f} dB", top), "end");
  out += svg_text(kLeft - 6, 10 + high, "0", "end");
  return out + svg_text(kLeft + plot / 2, kHeight - 8, "tensors in the order of the file") + "</svg>\n";
}

std::string number(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : std::string("-");
}

}  // namespace

std::string html_report(const Written& w) {
  std::vector<std::uint64_t> bins(128);
  std::vector<double> decibels;
  std::string rows;
  for (std::size_t i = 0; i < w.plan.tensors.size(); ++i) {
    const TensorReport& t = w.report.tensors[i];
    if (!t.quality) continue;
    for (std::size_t b = 0; b < std::min(bins.size(), t.histogram.size()); ++b) bins[b] += t.histogram[b];
    if (t.quality->sqnr_db && std::isfinite(*t.quality->sqnr_db)) decibels.push_back(*t.quality->sqnr_db);
    const bool lossless = t.quality->sqnr_db && std::isinf(*t.quality->sqnr_db);
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td><td>{:.6g}</td></tr>\n",
                        html(w.plan.tensors[i].name), lossless ? "lossless" : number(t.quality->sqnr_db, 2),
                        number(t.quality->cosine, 4), t.quality->zero_fraction * 100, t.largest_scale);
  }
  const Overall all = overall(w);
  std::string page =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>tern quantize</title>\n<style>\n"
      "body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 "
      "1rem;color:#222;background:#fff}\n"
      "svg{width:100%;height:auto;font-size:12px}svg .zero{fill:#b8bcc4}svg .minus{fill:#c8663c}svg "
      ".plus{fill:#2f6f9f}\n"
      "svg .threshold{stroke:#222;stroke-dasharray:4 3}table{border-collapse:collapse;width:100%}\n"
      "td,th{padding:.2rem .6rem;border-bottom:1px solid "
      "#ddd;text-align:right}td:first-child,th:first-child{text-align:left}\n"
      "</style></head><body>\n";
  page += fmt::format("<h1>{}</h1>\n<p>{} to {} by tern {}: {} &rarr; {}.", html(w.model.checkpoint().path()),
                      html(w.output), name(w.plan.layout), version(), human_bytes(w.plan.in_bytes()),
                      human_bytes(w.plan.out_bytes()));
  if (all.mean_sqnr_db)
    page += fmt::format(" SQNR {:.2f} dB in the mean, {:.2f} dB at worst; cosine {:.4f}; {:.1f} % zeros.",
                        *all.mean_sqnr_db, *all.worst_sqnr_db, *all.mean_cosine, all.zero_fraction * 100);
  page +=
      "</p>\n<h2>Weights against thresholds</h2>\n<p>Weights divided by their scale (a sample of each tensor; what "
      "lies beyond 4 is in the last bar). Between the dashed lines they become 0.</p>\n";
  page += histogram_svg(bins);
  page += "<h2>Error by tensor</h2>\n<p>SQNR in dB: higher is closer to the original.</p>\n" + errors_svg(decibels);
  page +=
      "<table><thead><tr><th>tensor</th><th>SQNR, dB</th><th>cosine</th><th>zeros, "
      "%</th><th>scale</th></tr></thead><tbody>\n";
  return page + rows + "</tbody></table>\n</body></html>\n";
}

Status save_html_report(const std::string& path, const Written& written) {
  const std::string page = html_report(written);
  const ConstTensorView bytes(page.data(), DType::u8, {static_cast<std::int64_t>(page.size())});
  StandardOutput stream;
  Status saved = is_standard_output(path) ? write_raw(stream.writer(), bytes) : save_raw(path, bytes);
  if (saved.ok()) return {};
  return Error{saved.error().code, saved.error().message, "--report"};
}

}  // namespace tern::cli
