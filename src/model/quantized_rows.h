// A matrix of floats as ternary rows, quantized when they are read.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "model/bitnet_match.h"
#include "model/buffer_pool.h"
#include "model/rows_source.h"
#include "tern/context.h"
#include "tern/quantize.h"

namespace tern {

class QuantizedRows : public RowsSource {
 public:
  // The i2 codes and scales of all rows, computed by a GPU. They must stay valid while rows are read.
  struct Made {
    const std::uint8_t* codes = nullptr;
    const float* scales = nullptr;
    std::string kernel;
  };
  // x is [n, k], dense and on the host; x and the pool must outlive the rows. `how` are the options of a quantize() to
  // i2. On a CPU, all threads compute a scale by tensor here, and the rest happens in read(). On a GPU, everything is
  // computed here, unless `made` has it already.
  static Result<std::unique_ptr<QuantizedRows>> make(const Context& context, BufferPool& pool, const ConstTensorView& x,
                                                     const QuantizeOptions& how, bool match_bitnet,
                                                     std::optional<Made> made = {});

  [[nodiscard]] const std::string& kernel() const { return name_; }
  // What other computations on these rows may use: the instructions of the CPU kernel or, if a GPU quantized, all that
  // the host may use.
  [[nodiscard]] Capabilities instructions() const { return instructions_; }
  // The code is 0 up to this |x|; unset where that is half of the scale.
  [[nodiscard]] std::optional<double> threshold() const;
  [[nodiscard]] float tensor_scale() const override { return match_ ? match_->stored_scale() : scale_; }
  Status read(RowRange rows, std::uint8_t* codes, float* scales) const override;

 private:
  QuantizedRows(BufferPool& pool, const ConstTensorView& x, const QuantizeOptions& how);
  Status find_scale();
  Status run(RowRange rows, std::uint8_t* codes, float* scales) const;
  [[nodiscard]] const std::uint8_t* row(std::int64_t i) const;

  ConstTensorView x_;
  std::optional<TernaryQuantizePlan> plan_;  // for all rows; unset if a GPU computed them
  Stream stream_;
  std::string name_;
  Capabilities instructions_;
  float scale_ = 0;
  std::optional<BitnetMatch> match_;
  std::optional<Made> made_;
  std::optional<QuantizedTensor> held_;  // owns what made_ points to, if it was computed here
  BufferPool& pool_;
};

}  // namespace tern
