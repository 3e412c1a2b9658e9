// The C ABI: the size of the output of conv2d, which is two numbers.
#include "api/c_plan.h"

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

tern_status tern_conv2d_output_size(const tern_conv2d_problem* problem, int64_t* height, int64_t* width) {
  return guarded("tern_conv2d_output_size", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"problem", problem}, {"height", height}, {"width", width}}));
    TERN_ASSIGN(cpp_problem, to_cpp(where, problem));
    TERN_ASSIGN(size, Conv2d::output_size(cpp_problem));
    *height = size.height;
    *width = size.width;
    return {};
  });
}
