// What the tests of tern_c_gpu.h share: events, streams and tensors as handles, and the profile as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "api/c_test.h"

namespace tern::c_test {

using EventHandle = std::unique_ptr<tern_event, Destroy<tern_event_destroy>>;

inline EventHandle make_event(const tern_context* context) {
  tern_event* event = nullptr;
  EXPECT_EQ(tern_event_create(context, &event), TERN_OK) << tern_last_error()->text;
  return EventHandle(event);
}

inline const tern_stream* stream_at(const tern_context* context, std::size_t index) {
  const tern_stream* stream = nullptr;
  EXPECT_EQ(tern_context_stream_at(context, index, &stream), TERN_OK) << tern_last_error()->text;
  return stream;
}

inline TensorHandle allocate(const tern_context* context, tern_dtype dtype, const std::vector<std::int64_t>& shape) {
  tern_tensor* tensor = nullptr;
  EXPECT_EQ(tern_tensor_allocate(context, dtype, static_cast<std::int32_t>(shape.size()), shape.data(), &tensor),
            TERN_OK)
      << tern_last_error()->text;
  return TensorHandle(tensor);
}

inline tern_tensor_view elements_of(const TensorHandle& tensor) {
  tern_tensor_view view = TERN_TENSOR_VIEW_INIT;
  EXPECT_EQ(tern_tensor_get_view(tensor.get(), &view), TERN_OK);
  return view;
}

inline nlohmann::json profile_of(const tern_context* context) {
  char text[4096];
  std::size_t length = 0;
  EXPECT_EQ(tern_context_profile(context, text, sizeof(text), &length), TERN_OK) << tern_last_error()->text;
  EXPECT_EQ(length, std::strlen(text));
  return nlohmann::json::parse(text);
}

}  // namespace tern::c_test
