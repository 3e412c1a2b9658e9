// The memory that packed weights go to.
#pragma once

#include "base/errors.h"
#include "base/views.h"
#include "device/cuda_place.h"
#include "ops/dot/packed_weights.h"

namespace tern {

struct PackedPlace {
  Tensor own;  // empty when the memory is the caller's
  std::span<std::byte> memory;

  // The caller's memory if there is any, else the context's.
  static Result<PackedPlace> make(const Context& context, std::size_t bytes, std::span<std::byte> given) {
    constexpr std::string_view kWhere = "pack";
    PackedPlace place{.own = {}, .memory = given};
    if (given.data() == nullptr) {
      TERN_ASSIGN(tensor,
                  Tensor::allocate(context.memory(), DType::u8, {static_cast<std::int64_t>(bytes)}, "packed weights"));
      place.own = std::move(tensor);
      place.memory = place.own.as<std::byte>();
    }
    if (place.memory.size() < bytes)
      return error(Code::invalid_argument, kWhere, "the memory has {} bytes, {} are needed", place.memory.size(),
                   bytes);
    const std::size_t alignment = packed_alignment(context.device().id.kind);
    if (reinterpret_cast<std::uintptr_t>(place.memory.data()) % alignment != 0)
      return error(Code::invalid_argument, kWhere, "the memory is not aligned to {} bytes", alignment);
    const DeviceId device = context.device().id;
    if (const auto lies = cuda::place_of(place.memory.data()); bytes > 0 && lies && *lies != device)
      return error(Code::invalid_argument, kWhere, "the memory lies on {}, the context is on {}", name(*lies),
                   name(device));
    place.memory = place.memory.first(bytes);
    return place;
  }

  [[nodiscard]] ByteSpan reach() const {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
    return {begin, begin + memory.size()};
  }
};

}  // namespace tern
