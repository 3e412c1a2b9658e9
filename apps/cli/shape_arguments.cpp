// Declares the options of a problem's shape and parses them. Numbers are at most 2^30, so that products of two fit.
#include "shape_arguments.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>

#include "arguments.h"
#include "log.h"
#include "tern/conv2d.h"

namespace tern::cli {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;

// "2x1" as numbers from `least` to kMost: as many as `values` has, or one for all of them where `one_for_all`.
template <std::size_t N>
bool parse_numbers(std::string_view text, char between, std::int64_t least, bool one_for_all,
                   std::array<std::int64_t, N>& values) {
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < N; ++i) {
    const auto [rest, failure] = std::from_chars(at, end, values[i]);
    if (failure != std::errc() || values[i] < least || values[i] > kMost) return false;
    if (rest == end && i == 0 && one_for_all) {
      values.fill(values[0]);
      return true;
    }
    if (i + 1 == N) return rest == end;
    if (rest == end || *rest != between) return false;
    at = rest + 1;
  }
  return false;
}

template <std::size_t N>
Status parse_option(const std::string& option, const std::string& text, char between, std::int64_t least,
                    bool one_for_all, std::string_view form, std::array<std::int64_t, N>& values) {
  if (parse_numbers(text, between, least, one_for_all, values)) return {};
  return Error{Code::invalid_argument,
               fmt::format("'{}' is not {}, with whole numbers from {} to {}", escaped(text, 40), form, least, kMost),
               option};
}

Status parse_order(const std::string& option, const std::optional<std::string>& text, bool& planes) {
  if (!text) return {};
  const Result<ImageOrder> order = parse_image_order(*text);
  if (!order.ok()) return Error{order.code(), order.error().message, option};
  planes = *order == ImageOrder::nchw;
  return {};
}

Result<WindowWords> parse_window(const ShapeArguments& arguments) {
  WindowWords w;
  Status status;
  const auto numbers = [&status](const std::string& option, const std::optional<std::string>& text, char between,
                                 std::int64_t least, bool one_for_all, std::string_view form, auto& values) {
    if (status.ok() && text) status = parse_option(option, *text, between, least, one_for_all, form, values);
  };
  const std::optional<std::string> shape = arguments.shape.empty() ? std::nullopt : std::optional(arguments.shape);
  std::array<std::int64_t, 2> image = {w.height, w.width};
  numbers("--shape", shape, 'x', 1, false, "OUTxINxHEIGHTxWIDTH of the filters, as in 64x64x3x3", w.filters);
  numbers("--image", arguments.image, 'x', 1, false, "HEIGHTxWIDTH, as in 56x56", image);
  numbers("--stride", arguments.stride, 'x', 1, true, "N or DOWNxACROSS, as in 2 or 2x1", w.stride);
  numbers("--dilation", arguments.dilation, 'x', 1, true, "N or DOWNxACROSS, as in 2 or 2x1", w.dilation);
  w.height = image[0];
  w.width = image[1];
  const std::int64_t down = w.dilation[0] * (w.filters[2] - 1) / 2, across = w.dilation[1] * (w.filters[3] - 1) / 2;
  w.padding = {down, down, across, across};
  numbers("--padding", arguments.padding, ',', 0, true, "N or TOP,BOTTOM,LEFT,RIGHT, as in 1 or 0,1,0,1", w.padding);
  if (status.ok()) status = parse_order("--order", arguments.order, w.planes);
  if (status.ok()) status = parse_order("--y-order", arguments.y_order, w.y_planes);
  if (!status.ok()) return status.error();
  w.groups = arguments.groups.value_or(1);
  return w;
}

}  // namespace

void add_shape_arguments(CLI::App& command, ShapeArguments& arguments, const std::string& description) {
  command
      .add_option("--shape", arguments.shape,
                  description + "; of conv2d's\nfilters OUTxINxHEIGHTxWIDTH, otherwise 64x64x3x3")
      ->type_name("ROWSxCOLS");
  command.add_option("--image", arguments.image, "Of conv2d: the size of an image, otherwise 56x56")
      ->type_name("HEIGHTxWIDTH");
  command.add_option("--stride", arguments.stride, "Of conv2d: N or DOWNxACROSS, otherwise 1")->type_name("N");
  command.add_option("--dilation", arguments.dilation, "Of conv2d: N or DOWNxACROSS, otherwise 1")->type_name("N");
  command
      .add_option(
          "--padding", arguments.padding,
          "Of conv2d: N or TOP,BOTTOM,LEFT,RIGHT; otherwise half of what\na filter reaches over beside one pixel")
      ->type_name("N");
  command
      .add_option("--groups", arguments.groups,
                  "Of conv2d, otherwise 1; IN of --shape counts one group's\nchannels, OUT all groups' filters")
      ->check(whole_number(1, kMost))
      ->type_name("N");
  command.add_option("--order", arguments.order, "Of conv2d's images: nhwc (default) or nchw")->type_name("NAME");
  command.add_option("--y-order", arguments.y_order, "Of conv2d's results: nhwc (default) or nchw")->type_name("NAME");
}

Result<ProblemShape> parse(const ShapeArguments& arguments, const std::string& op) {
  const Status known = check_words(op, {{arguments.image.has_value(), Word::window, "--image"},
                                        {arguments.stride.has_value(), Word::window, "--stride"},
                                        {arguments.dilation.has_value(), Word::window, "--dilation"},
                                        {arguments.padding.has_value(), Word::window, "--padding"},
                                        {arguments.groups.has_value(), Word::window, "--groups"},
                                        {arguments.order.has_value(), Word::window, "--order"},
                                        {arguments.y_order.has_value(), Word::window, "--y-order"}});
  if (!known.ok()) return known.error();
  ProblemShape problem;
  if (lab::find_op(op)->words.has(Word::window)) {
    if (arguments.shape.empty() && !arguments.image && !arguments.stride && !arguments.dilation && !arguments.padding &&
        !arguments.groups && !arguments.order && !arguments.y_order)
      return problem;
    const Result<WindowWords> window = parse_window(arguments);
    if (!window.ok()) return window.error();
    problem.window = *window;
  } else if (!arguments.shape.empty()) {
    const Result<RowsAndColumns> shape = parse_problem_shape(arguments.shape);
    if (!shape.ok()) return shape.error();
    problem.rows = shape->rows;
    problem.k = shape->columns;
  }
  return problem;
}

}  // namespace tern::cli
