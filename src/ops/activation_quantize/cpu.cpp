// Runs the loops of an instruction set over tokens: splits them over threads, and saturates non-finite tokens.
#include <algorithm>
#include <atomic>

#include "memory/workspace.h"
#include "ops/activation_quantize/activation_quantize.h"

namespace tern::activation_quantize {
namespace {

constexpr std::int64_t kMinElemsPerSlot = 32 * 1024;  // for a few microseconds of work another thread does not pay

int slots_for(const ActivationQuantize::Problem& p, int threads) {
  const std::int64_t wanted = std::min(p.m, p.m * p.k / kMinElemsPerSlot);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, threads));
}

// Room for one saturated token per thread slot.
float* book_clean(WorkspaceLedger& ledger, const ActivationQuantize::Problem& p, int threads) {
  if (p.non_finite == NonFinite::reject) return nullptr;
  return ledger.book<float>(static_cast<std::size_t>(p.k * slots_for(p, threads)));
}

}  // namespace

std::size_t cpu_workspace(const SimdTable&, const ActivationQuantize::Problem& p, int threads) {
  WorkspaceLedger ledger(nullptr);
  book_clean(ledger, p, threads);
  return ledger.bytes();
}

Status cpu_run(const SimdTable& table, const Params& params, const Exec& exec) {
  const auto& p = params.problem;
  WorkspaceLedger ledger(exec.workspace.data());
  float* clean = book_clean(ledger, p, exec.threads.count());
  std::atomic<bool> refused{false};
  WorkQueue queue(p.m, std::max<std::int64_t>(1, kMinElemsPerSlot / 4 / p.k));
  exec.threads.run(slots_for(p, exec.threads.count()), [&](int slot) {
    for (std::int64_t begin = 0, end = 0; queue.next(begin, end);)
      for (std::int64_t token = begin; token < end; ++token) {
        const void* x = element(params.x, p.dtype, token * params.x_stride);
        const auto finite = finite_token(table, x, p.dtype, p.k, p.non_finite, clean + slot * p.k);
        if (!finite) {
          refused = true;
          return;
        }
        params.scales[token] = finite->s;
        params.sums[token] =
            table.quantize[source_of(finite->dtype)](finite->x, p.k, finite->s, params.q + token * params.q_stride);
      }
  });
  if (refused) return non_finite_error("activation_quantize", params.x, p.dtype, params.x_stride, p.m, p.k);
  return {};
}

}  // namespace tern::activation_quantize
