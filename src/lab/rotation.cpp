// Sizes rotations by the caches and the free memory, and allocates them.
#include "lab/rotation.h"

#include <algorithm>

#include "base/checked.h"
#include "base/errors.h"

namespace tern::lab {
namespace {

// The alignment that packed weights need.
std::size_t part_alignment(const Context& context) { return context.device().id.kind == DeviceKind::cuda ? 256 : 64; }

// The memory that this process may still take: a tenth is left to others, and the limits allocate their buffer later.
Result<std::size_t> spare_memory_bytes(const BenchRequest& request, const Context& context) {
  TERN_ASSIGN(info, context.memory_info());
  const std::size_t available = info.free_bytes;
  const std::size_t kept = available / 10 + request.limit_bytes;
  return available > kept ? available - kept : 0;
}

}  // namespace

std::size_t cold_rotation_bytes(const Device& device) {
  constexpr std::size_t kUnknownCache = std::size_t{64} << 20;  // if nothing is known: larger than most
  std::size_t largest = 0;
  for (const Cache& cache : device.caches)
    largest = std::max(largest, cache.bytes * static_cast<std::size_t>(cache.count));
  return 4 * (largest == 0 ? kUnknownCache : largest);
}

Result<RotationPlan> plan_rotation(std::size_t copy_bytes, std::size_t wanted_bytes, std::size_t available_bytes) {
  if (copy_bytes == 0) return RotationPlan{.copies = 1, .note = {}};  // nothing to rotate
  if (copy_bytes > available_bytes)
    return with(
        MemoryShortage{.needed_bytes = copy_bytes, .free_bytes = available_bytes},
        error(Code::insufficient_memory, "bench",
              "the problem needs {} bytes and {} are available; ask for a smaller shape", copy_bytes, available_bytes));
  const std::size_t wanted = std::max<std::size_t>(1, (wanted_bytes + copy_bytes - 1) / copy_bytes);
  const std::size_t possible = std::min(wanted, available_bytes / copy_bytes);
  RotationPlan plan{.copies = static_cast<std::int64_t>(possible), .note = {}};
  if (possible < wanted)
    plan.note =
        fmt::format("cold rotation covers {} of {} bytes: memory is short", possible * copy_bytes, wanted_bytes);
  return plan;
}

Result<Rotation> Rotation::make(const BenchRequest& request, const Context& context,
                                std::span<const std::size_t> part_bytes) {
  Rotation rotation;
  std::size_t copy_bytes = 0;
  for (const std::size_t bytes : part_bytes) {
    rotation.stride_bytes_.push_back(round_up(bytes, part_alignment(context)));
    copy_bytes += rotation.stride_bytes_.back();
  }
  const std::size_t cold_bytes = request.cold_bytes != 0 ? request.cold_bytes : cold_rotation_bytes(context.device());
  TERN_ASSIGN(spare_bytes, spare_memory_bytes(request, context));
  TERN_ASSIGN(plan, plan_rotation(copy_bytes, request.weights == Weights::cold ? cold_bytes : 0, spare_bytes));
  rotation.device_ = context.device().id;
  rotation.copies_ = plan.copies;
  rotation.note_ = plan.note;
  for (const std::size_t stride : rotation.stride_bytes_) {
    const Shape shape{plan.copies, static_cast<std::int64_t>(stride)};
    TERN_ASSIGN(slab, Tensor::allocate(context.memory(), DType::u8, shape, "bench"));
    rotation.slabs_.push_back(std::move(slab));
  }
  return rotation;
}

void* Rotation::part(std::size_t part, std::int64_t copy) const {
  return static_cast<std::byte*>(slabs_[part].data()) + static_cast<std::size_t>(copy) * stride_bytes_[part];
}

}  // namespace tern::lab
