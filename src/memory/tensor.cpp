// The owning tensor.
#include "tern/tensor.h"

#include <utility>

#include "base/checked.h"
#include "base/errors.h"

namespace tern {

Result<Tensor> Tensor::allocate(std::shared_ptr<MemoryResource> memory, DType dtype, const Shape& shape,
                                const char* tag, CallSite where) {
  TERN_ASSIGN(elements, element_count(shape));
  const auto bytes = checked_mul(elements, static_cast<std::int64_t>(size_of(dtype)));
  if (!bytes)
    return error(Code::invalid_argument, "tensor", "{} of {} has more bytes than 2^63 - 1", name(shape), name(dtype));
  Tensor tensor;
  tensor.bytes_ = static_cast<std::size_t>(*bytes);
  TERN_ASSIGN(data, memory->allocate({.bytes = tensor.bytes_, .tag = tag, .where = where}));
  tensor.data_ = data;
  tensor.memory_ = std::move(memory);
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  return tensor;
}

Tensor::~Tensor() {
  // A destructor cannot return the error of a failed deallocation.
  if (data_ != nullptr) (void)memory_->deallocate(data_, bytes_).ok();
}

Tensor::Tensor(Tensor&& other) noexcept { *this = std::move(other); }

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(dtype_, other.dtype_);
  std::swap(shape_, other.shape_);
  return *this;
}

TensorView Tensor::view() { return {data_, dtype_, shape_, memory_ ? memory_->device() : DeviceId{}}; }
ConstTensorView Tensor::view() const { return {data_, dtype_, shape_, memory_ ? memory_->device() : DeviceId{}}; }

}  // namespace tern
