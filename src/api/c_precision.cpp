// The C ABI: precisions, and reports of them as handles.
#include <cmath>

#include "api/c_abi.h"

struct tern_precision_reports {
  tern::PrecisionComparison comparison;  // the faces point into it
  std::vector<tern_precision_report> faces;
};

using namespace tern;     // NOLINT(google-build-using-namespace): entry points below are the global C names
using namespace tern::c;  // NOLINT(google-build-using-namespace)

namespace {

tern_precision_report face_of(const PrecisionReport& report) {
  return {.struct_size = sizeof(tern_precision_report),
          .asked = static_cast<tern_precision>(report.choice.asked),
          .used = static_cast<tern_dtype>(report.choice.used),
          .fell_back = report.choice.fell_back ? 1 : 0,
          .because = report.choice.because.c_str(),
          .kernel = report.kernel.c_str(),
          .sqnr_db = report.sqnr_db.value_or(NAN),
          .cosine = report.cosine.value_or(NAN),
          .max_error = report.max_error,
          .microseconds = report.microseconds,
          .refused = report.refused.c_str()};
}

// compare(weights, x) returns the comparison.
template <class Compare>
Status make_reports(const char* where, const tern_context* context, const tern_quantized* weights,
                    const tern_tensor_view* x, tern_precision_reports** out, Compare compare) {
  TERN_RETURN_IF_ERROR(cleared(where, out, {{"context", context}, {"weights", weights}, {"x", x}}));
  TERN_ASSIGN(cpp_x, to_view(where, "x", *x));
  const ParallelForWatch watch;
  TERN_ASSIGN(comparison, compare(weights->tensor, ConstTensorView(cpp_x)));
  TERN_RETURN_IF_ERROR(watch.status(where));
  auto made = std::make_unique<tern_precision_reports>();
  made->comparison = std::move(comparison);
  for (const PrecisionReport& report : made->comparison.modes) made->faces.push_back(face_of(report));
  *out = made.release();
  return {};
}

}  // namespace

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

tern_status tern_precision_reports_count(const tern_precision_reports* reports, size_t* out) {
  return count_of("tern_precision_reports_count", "reports", reports, &tern_precision_reports::faces, out);
}

tern_status tern_precision_reports_get(const tern_precision_reports* reports, size_t index,
                                       const tern_precision_report** out) {
  return hand_out("tern_precision_reports_get", "reports", reports, &tern_precision_reports::faces, index, out);
}

tern_status tern_precision_reports_optimal(const tern_precision_reports* reports, size_t* index) {
  return guarded("tern_precision_reports_optimal", [&](const char* where) -> Status {
    TERN_RETURN_IF_ERROR(not_null(where, {{"reports", reports}, {"index", index}}));
    *index = reports->comparison.optimal;
    return {};
  });
}

void tern_precision_reports_destroy(tern_precision_reports* reports) { delete reports; }
