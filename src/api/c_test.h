// What the tests of the C ABI share: handles that clean up, weights, and a look at the last error.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tern/tern_c.h"

namespace tern::c_test {

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* handle) const {
    destroy(handle);
  }
};
using ContextHandle = std::unique_ptr<tern_context, Destroy<tern_context_close>>;
using QuantizedHandle = std::unique_ptr<tern_quantized, Destroy<tern_quantized_destroy>>;
using TensorHandle = std::unique_ptr<tern_tensor, Destroy<tern_tensor_destroy>>;
using QuantizePlan = std::unique_ptr<tern_ternary_quantize_plan, Destroy<tern_ternary_quantize_plan_destroy>>;
using DequantizePlan = std::unique_ptr<tern_ternary_dequantize_plan, Destroy<tern_ternary_dequantize_plan_destroy>>;

using ActivationPlan = std::unique_ptr<tern_activation_quantize_plan, Destroy<tern_activation_quantize_plan_destroy>>;
using LinearPlanHandle = std::unique_ptr<tern_linear_plan, Destroy<tern_linear_plan_destroy>>;
using WeightsHandle = std::unique_ptr<tern_packed_weights, Destroy<tern_packed_weights_destroy>>;

inline constexpr tern_granularity kByRow = {TERN_GRANULARITY_ROW, 0};

inline ContextHandle open_context(const tern_context_config* config = nullptr) {
  tern_context* context = nullptr;
  EXPECT_EQ(tern_context_open(config, &context), TERN_OK) << tern_last_error()->text;
  return ContextHandle(context);
}

// Values on both sides of every threshold, none of them a power of two.
inline std::vector<float> make_weights(std::int64_t count) {
  std::vector<float> weights(static_cast<std::size_t>(count));
  std::uint32_t state = 12345;
  for (float& w : weights) {
    state = state * 1664525 + 1013904223;
    w = static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) / 5000000.0F;
  }
  return weights;
}

template <class T>
tern_tensor_view view_of(T* data, tern_dtype dtype, std::vector<std::int64_t> shape) {
  tern_tensor_view view = TERN_TENSOR_VIEW_INIT;
  view.data = const_cast<std::remove_const_t<T>*>(data);
  view.dtype = dtype;
  view.rank = static_cast<std::int32_t>(shape.size());
  for (std::size_t i = 0; i < shape.size() && i < 8; ++i) view.shape[i] = shape[i];
  return view;
}

inline QuantizedHandle quantize(const tern_context* context, const tern_tensor_view& x,
                                const tern_quantize_options* options = nullptr) {
  tern_quantized* quantized = nullptr;
  EXPECT_EQ(tern_quantize(context, &x, options, &quantized), TERN_OK) << tern_last_error()->text;
  return QuantizedHandle(quantized);
}

inline const tern_quantized_info& info_of(const QuantizedHandle& quantized) {
  const tern_quantized_info* info = nullptr;
  EXPECT_EQ(tern_quantized_get_info(quantized.get(), &info), TERN_OK);
  return *info;
}

inline WeightsHandle pack(const tern_context* context, const QuantizedHandle& quantized) {
  tern_packed_weights* packed = nullptr;
  EXPECT_EQ(tern_packed_weights_create_from_quantized(context, quantized.get(), nullptr, 0, &packed), TERN_OK)
      << tern_last_error()->text;
  return WeightsHandle(packed);
}

inline bool same_bytes(const void* a, const void* b, std::size_t bytes) { return std::memcmp(a, b, bytes) == 0; }

// A function, because a hundred expansions of gtest's macros in one test take a minute to compile with sanitizers.
inline void expect_fails(const char* file, int line, const char* call, tern_status status, tern_status expected,
                         const char* part) {
  const tern_error& error = *tern_last_error();
  if (status != expected || error.status != expected)
    ADD_FAILURE_AT(file, line) << call << " answers " << tern_status_name(status) << ", not "
                               << tern_status_name(expected) << "; the last error is " << error.text;
  else if (std::strstr(error.message, part) == nullptr)
    ADD_FAILURE_AT(file, line) << "no \"" << part << "\" in: " << error.text;
}

}  // namespace tern::c_test

// The call fails with this status, and the last error says so with this text in its message.
#define EXPECT_FAILS(call, expected, part) ::tern::c_test::expect_fails(__FILE__, __LINE__, #call, call, expected, part)
