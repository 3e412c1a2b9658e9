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

// What a kernel promises of its results; tests assert it.
struct Guarantee {
  std::string_view math = "f32";         // the type of every single operation
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
  std::vector<Rejection> rejections = {};  // in list order, best kernel first
  std::vector<std::string> notes = {};     // overrides that took, preferences that could not be met
};

// How a GPU's kernels are cut and launched, for those that have the choice; what is left open they choose themselves.
enum class GridStrategy : std::uint8_t {
  automatic,
  fixed,      // a block for every piece of work
  occupancy,  // as many blocks as run at once, each with several pieces
};
TERN_API std::string_view name(GridStrategy);
TERN_API Result<GridStrategy> parse_grid_strategy(std::string_view);

struct Tuning {
  int threads = 0;  // of a block; 0: the kernel's choice
  GridStrategy grid = GridStrategy::automatic;
  int split = 0;                              // parts of k; 0: the kernel's choice
  std::optional<bool> dependent_launch = {};  // begin while the kernel before is still running, where both can
  friend bool operator==(const Tuning&, const Tuning&) = default;
};
TERN_API std::string name(const Tuning&);  // "threads=256,grid=fixed,split=4,dependent=off", what is open left out
TERN_API Result<Tuning> parse_tuning(std::string_view);

// What the caller would like; an environment override is stronger.
struct Preference {
  std::string kernel = {};  // prefer this kernel; if it refuses, the next best is taken and noted
  bool strict = false;      // ... or select() fails (TERN_STRICT=1 does the same)
  Tuning tuning = {};       // of a GPU's kernel
};

// Scratch memory of one run. Two runs at the same time need two.
using Workspace = std::span<std::byte>;

template <class Op>
class TERN_API Plan {
 public:
  using Problem = typename Op::Problem;
  using Args = typename Op::Args;

  static Result<Plan> select(const Context& context, const Problem& problem, const Preference& preference = {});
  // The same decision without a plan; succeeds also when every kernel refuses.
  static Result<Explanation> explain(const Context& context, const Problem& problem, const Preference& preference = {});

  [[nodiscard]] Status can_implement(const Args& args) const;  // run()'s checks, without running
  [[nodiscard]] std::size_t workspace_bytes() const;
  // Checks again, then computes. const and thread-safe, each call with its own workspace of at least
  // workspace_bytes(), 64-byte aligned.
  Status run(Stream stream, Workspace workspace, const Args& args) const;

  [[nodiscard]] const Problem& problem() const;
  [[nodiscard]] const PlanId& id() const;
  [[nodiscard]] const Guarantee& guarantee() const;
  [[nodiscard]] const Explanation& explain() const;
  // On a GPU, how a run of as many tokens as planned is cut and launched: what was asked for as far as it can be, the
  // kernel's choice for the rest. Nothing where the kernel has no such choice.
  [[nodiscard]] const std::optional<Tuning>& tuning() const;

 private:
  struct Impl;
  explicit Plan(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
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
