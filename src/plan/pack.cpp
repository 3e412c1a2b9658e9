// Packs weights on the device of a context: the only place where packing distinguishes CPU and GPU.
#include "plan/pack.h"

#include "base/errors.h"
#include "plan/context_state.h"
#include "plan/gpu_pack.h"

namespace tern {

Result<PackedWeights> pack(const Context& context, const WeightSource& source, PackedPlace place) {
  const bool on_gpu = context.device().id.kind == DeviceKind::cuda;
  auto packed = on_gpu ? pack_on_gpu(context, source, place.memory)
                       : pack_weights(source.weights, source.reader ? &*source.reader : nullptr,
                                      context.state().threads, place.memory);
  TERN_ASSIGN(state, std::move(packed));
  state.memory = std::move(place.own);
  return PackedWeights(std::make_shared<const PackedWeights::State>(std::move(state)));
}

}  // namespace tern
