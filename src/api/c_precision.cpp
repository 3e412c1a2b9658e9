// The C ABI: precisions, and reports of them as handles.
#include "api/c_handles.h"

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

namespace {

// compare(weights, x) returns the comparison.
template <class Compare>
Status make_reports(const char* where, const tern_context* context, const tern_quantized* weights,
                    const tern_tensor_view* x, tern_precision_reports** out, Compare compare) {
  TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"weights", weights}, {"x", x}}));
  TERN_ASSIGN(cpp_x, to_view(where, "x", *x));
  const ParallelForWatch watch;
  TERN_ASSIGN(comparison, compare(weights->tensor, ConstTensorView(cpp_x)));
  TERN_RETURN_IF_ERROR(watch.status(where));
  return put(out, std::move(comparison));
}

}  // namespace

tern_precision_reports::tern_precision_reports(PrecisionComparison from) : comparison(std::move(from)) {
  for (const PrecisionReport& report : comparison.modes) faces.push_back(face_of(report));
}

tern_status tern_resolve_precision(const tern_context* context, tern_precision asked, int32_t strict, tern_dtype* used,
                                   int32_t* fell_back, char* buffer, size_t buffer_bytes, size_t* length) {
  return guarded("tern_resolve_precision", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"context", context}, {"used", used}, {"fell_back", fell_back}}));
    TERN_ASSIGN(precision, to_enum(where, "asked", asked, kLastPrecision));
    TERN_ASSIGN(choice, resolve_precision(context->context, precision, strict != 0));
    TERN_RETURN_IF_ERROR(write_text(where, choice.because, buffer, buffer_bytes, length));
    *used = static_cast<tern_dtype>(choice.used);
    *fell_back = choice.fell_back ? 1 : 0;
    return {};
  });
}

tern_status tern_validate_precision_accuracy(const tern_context* context, const tern_quantized* weights,
                                             const tern_tensor_view* x, tern_precision precision,
                                             tern_precision_reports** out) {
  return guarded("tern_validate_precision_accuracy", [&](const char* where) -> Status {
    const auto one = [&](const QuantizedTensor& w, const ConstTensorView& tokens) -> Result<PrecisionComparison> {
      TERN_ASSIGN(asked, to_enum(where, "precision", precision, kLastPrecision));
      TERN_ASSIGN(report, validate_precision_accuracy(context->context, w, tokens, asked));
      PrecisionComparison comparison;
      comparison.modes.push_back(std::move(report));
      return comparison;
    };
    return make_reports(where, context, weights, x, out, one);
  });
}

tern_status tern_benchmark_precision_modes(const tern_context* context, const tern_quantized* weights,
                                           const tern_tensor_view* x, double min_sqnr_db,
                                           tern_precision_reports** out) {
  return guarded("tern_benchmark_precision_modes", [&](const char* where) -> Status {
    return make_reports(where, context, weights, x, out, [&](const QuantizedTensor& w, const ConstTensorView& tokens) {
      return benchmark_precision_modes(context->context, w, tokens, min_sqnr_db);
    });
  });
}
