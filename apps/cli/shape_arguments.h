// The options of a problem's shape: rows and columns, or a convolution's filters, images and window.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "lab/op_record.h"
#include "tern/status.h"

namespace tern::cli {

struct ShapeArguments {
  std::string shape;  // empty: not given
  std::optional<std::int64_t> groups;
  std::optional<std::string> image, stride, dilation, padding, order, y_order;
};
// `description` is that of --shape.
void add_shape_arguments(CLI::App& command, ShapeArguments& arguments, const std::string& description);

struct ProblemShape {
  std::int64_t rows = 0, k = 0;            // both 0: --shape was not given, or the op has a window
  std::optional<WindowWords> window = {};  // empty: no option of a window was given
};
// Refuses options that the op does not have.
Result<ProblemShape> parse(const ShapeArguments& arguments, const std::string& op);

}  // namespace tern::cli
