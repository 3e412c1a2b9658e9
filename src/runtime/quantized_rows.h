// A matrix of floats as ternary rows, quantized when they are asked for.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/bitnet_match.h"
#include "runtime/buffer_pool.h"
#include "runtime/rows_source.h"
#include "tern/context.h"
#include "tern/quantize.h"

namespace tern {

class QuantizedRows : public RowsSource {
 public:
  // What a GPU made of all rows: codes in i2 and their scales, valid while they are read.
  struct Made {
    const std::uint8_t* codes = nullptr;
    const float* scales = nullptr;
    std::string kernel;
  };
  // x is [n, k], dense, on the host, and outlives the rows, as the pool does. `how` is of a quantize() to i2; a scale
  // by tensor is computed here, by all threads. On a GPU everything is, if it was not made before.
  static Result<std::unique_ptr<QuantizedRows>> make(const Context& context, BufferPool& pool, const ConstTensorView& x,
                                                     const QuantizeOptions& how, bool match_bitnet,
                                                     std::optional<Made> made = {});

  [[nodiscard]] const std::string& kernel() const { return name_; }
  // Those of the kernel, for what else is computed of the rows; of a GPU's, those that the processor may use.
  [[nodiscard]] Capabilities instructions() const { return instructions_; }
  // Of |x|, where it is not half of the scale.
  [[nodiscard]] std::optional<double> threshold() const;
  [[nodiscard]] float tensor_scale() const override { return match_ ? match_->stored_scale() : scale_; }
  Status read(RowRange rows, std::uint8_t* codes, float* scales) const override;

 private:
  QuantizedRows(BufferPool& pool, const ConstTensorView& x, const QuantizeOptions& how);
  Status find_scale();
  Status run(RowRange rows, std::uint8_t* codes, float* scales) const;
  [[nodiscard]] const std::uint8_t* row(std::int64_t i) const;

  ConstTensorView x_;
  std::optional<TernaryQuantizePlan> plan_;  // of all rows; none where a GPU made them
  Stream stream_;
  std::string name_;
  Capabilities instructions_;
  float scale_ = 0;
  std::optional<BitnetMatch> match_;
  std::optional<Made> made_;
  std::optional<QuantizedTensor> held_;  // where that lies, if it was made here
  BufferPool& pool_;
};

}  // namespace tern
