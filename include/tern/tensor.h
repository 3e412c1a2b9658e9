// Borrowed views with shape and strides, and one owning tensor.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "tern/export.h"
#include "tern/memory.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern {

class Context;

// Sizes of up to eight axes, slowest first.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes)
      : Shape(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes) {
    rank_ = static_cast<int>(sizes.size() < kMaxRank ? sizes.size() : kMaxRank);
    overflow_ = sizes.size() > kMaxRank;
    for (int i = 0; i < rank_; ++i) sizes_[static_cast<std::size_t>(i)] = sizes[static_cast<std::size_t>(i)];
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] bool too_many_axes() const { return overflow_; }  // calls refuse such a shape
  std::int64_t operator[](int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return sizes_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] std::span<const std::int64_t> sizes() const { return {sizes_.data(), static_cast<std::size_t>(rank_)}; }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
  bool overflow_ = false;
};

TERN_API std::string name(const Shape&);  // "[2, 3]"

// The product of the sizes; a negative size or an overflow is an error that names it.
TERN_API Result<std::int64_t> element_count(const Shape&);

// The strides, in elements, of a dense row-major tensor.
TERN_API Shape dense_strides(const Shape&);

// A view of elements that the caller owns. Strides count elements, not bytes.
template <class Void>
struct BasicTensorView {
  Void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Shape strides;
  DeviceId device = {};

  BasicTensorView() = default;
  BasicTensorView(Void* data_, DType dtype_, const Shape& shape_, DeviceId device_ = {})
      : data(data_), dtype(dtype_), shape(shape_), strides(dense_strides(shape_)), device(device_) {}
  BasicTensorView(Void* data_, DType dtype_, const Shape& shape_, const Shape& strides_, DeviceId device_)
      : data(data_), dtype(dtype_), shape(shape_), strides(strides_), device(device_) {}

  operator BasicTensorView<const void>() const {  // NOLINT(google-explicit-constructor)
    return {data, dtype, shape, strides, device};
  }
};
using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

// A tensor that owns its elements, dense, from a memory resource; move-only.
class Tensor {
 public:
  Tensor() = default;
  static TERN_API Result<Tensor> allocate(std::shared_ptr<MemoryResource> memory, DType dtype, const Shape& shape,
                                          const char* tag = "tensor", CallSite where = CallSite::here());
  // A copy in the context's memory, whichever devices are involved; waits until it is complete.
  [[nodiscard]] TERN_API Result<Tensor> to(const Context& context) const;

  TERN_API ~Tensor();
  TERN_API Tensor(Tensor&&) noexcept;
  TERN_API Tensor& operator=(Tensor&&) noexcept;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t elements() const { return static_cast<std::int64_t>(bytes_ / size_of(dtype_)); }
  TERN_API TensorView view();
  [[nodiscard]] TERN_API ConstTensorView view() const;

  template <class T>
  [[nodiscard]] std::span<T> as() const {  // the caller must know the dtype
    return {static_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  std::shared_ptr<MemoryResource> memory_ = {};
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  DType dtype_ = DType::f32;
  Shape shape_;
};

}  // namespace tern
