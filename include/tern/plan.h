// A plan is a kernel chosen for a problem on a device: select -> can_implement -> workspace_bytes -> run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tern/context.h"
#include "tern/device.h"
#include "tern/export.h"
#include "tern/status.h"

namespace tern {

struct Kernel;
namespace detail {
template <class Op>
struct PlanRows;
}

// What a kernel promises of its results; tests assert it.
struct Guarantee {
  std::string_view math = "f32";         // the type of each operation
  std::string_view accumulator = "f64";  // the type of sums
  bool deterministic = true;             // the same inputs give the same bits, for every thread count
  bool bit_stable = true;                // the same bits as the reference on every machine
};

// The identity of a plan, for telemetry.
struct PlanId {
  std::string op = {};           // "ternary_quantize"
  std::string kernel = {};       // "ternary_quantize.i2.x86_avx2"
  std::string element = {};      // dtype of the main input
  std::string aux_element = {};  // dtype of scales
  std::string layout = {};       // format of the codes
  std::string epilogue = {};     // "none" where an op has none
  std::string arch = {};         // "x86_avx2", "sm_90a"
  std::string backend = {};      // "cpu", "cuda"
  Guarantee guarantee = {};
  [[nodiscard]] TERN_API std::string str() const;  // one line, stable, fit for a key
};

// A kernel's reason for not taking a problem.
struct Rejection {
  std::string kernel = {};
  std::string reason = {};
};

struct Explanation {
  std::string chosen = {};  // empty when every kernel refused
  std::string chosen_because = {};
  std::vector<Rejection> rejections = {};  // in the order of the list, best kernel first
  std::vector<std::string> notes = {};     // overrides that took effect, preferences that could not be met
};

enum class GridStrategy : std::uint8_t {
  automatic,
  fixed,      // one block for each piece of work
  occupancy,  // as many blocks as can run at once, each doing several pieces
};
TERN_API std::string_view name(GridStrategy);
TERN_API Result<GridStrategy> parse_grid_strategy(std::string_view);

// How a kernel works, where it has the choice. What is left open is chosen for the machine. Results do not depend on
// it.
struct Tuning {
  // Of a GPU's kernel: how it is cut and launched.
  int threads = 0;  // of a block; 0: the kernel's choice
  GridStrategy grid = GridStrategy::automatic;
  int split = 0;                              // parts of k; 0: the kernel's choice
  std::optional<bool> dependent_launch = {};  // start while the previous kernel is still running, where both support it
  // Of a CPU's kernel of linear, for one token: how it reads the weights.
  int streams = 0;                      // places of the weights that are read in turn, 1, 2 or 4; 0: chosen
  std::optional<int> ahead_bytes = {};  // of each stream, prefetched so far ahead; 0: nothing is prefetched
  friend bool operator==(const Tuning&, const Tuning&) = default;
};
// "threads=256,grid=fixed,split=4,dependent=off" or "streams=2,ahead=2048"; skips open fields.
TERN_API std::string name(const Tuning&);
TERN_API Result<Tuning> parse_tuning(std::string_view);

// The caller's wishes. An environment override takes precedence.
struct Preference {
  std::string kernel = {};  // use this kernel if it accepts the problem; otherwise the best one that does, with a note
  bool strict = false;      // ... otherwise select() fails (as with TERN_STRICT=1)
  Tuning tuning = {};
};

// Scratch memory for one run. Two concurrent runs need two.
using Workspace = std::span<std::byte>;

template <class Op>
class TERN_API Plan {
 public:
  using Problem = typename Op::Problem;
  using Args = typename Op::Args;

  static Result<Plan> select(const Context& context, const Problem& problem, const Preference& preference = {});
  // The same decision without a plan; also succeeds when every kernel refuses.
  static Result<Explanation> explain(const Context& context, const Problem& problem, const Preference& preference = {});

  [[nodiscard]] Status can_implement(const Args& args) const;  // the checks of run(), without running
  [[nodiscard]] std::size_t workspace_bytes() const;
  // Checks the arguments, then computes. const and thread-safe; concurrent calls need a workspace each, of at least
  // workspace_bytes() and 64-byte aligned.
  Status run(Stream stream, Workspace workspace, const Args& args) const;

  [[nodiscard]] const Problem& problem() const;
  [[nodiscard]] const PlanId& id() const;
  [[nodiscard]] const Guarantee& guarantee() const;
  [[nodiscard]] const Explanation& explain() const;
  // How the kernel works: what the caller asked for as far as the kernel can do it, and what was chosen for the rest.
  // On a GPU it is for a run with the planned number of tokens. Empty where the kernel has no such choice.
  [[nodiscard]] const std::optional<Tuning>& tuning() const;

 private:
  struct Impl;
  friend struct detail::PlanRows<Op>;
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] const Kernel* kernel() const;
  std::shared_ptr<const Impl> impl_ = {};
};

// One line of the list of kernels, seen from this machine.
struct KernelDescription {
  std::string name = {};
  std::string op = {};
  std::string format = {};
  std::vector<std::string> needs = {};   // capabilities
  std::vector<std::string> dtypes = {};  // of the float side
  std::vector<std::string> schemes = {};
  bool in_build = false;
  std::string refused = {};  // why this context cannot run it; empty when it can
};

TERN_API Result<std::vector<KernelDescription>> kernels(const Context& context);

}  // namespace tern
