// Ternary weights of a checkpoint to canonical codes and scales.
#pragma once

#include "tern/model.h"

namespace tern {

Result<QuantizedTensor> read_weights(const Context& context, const Checkpoint& checkpoint, const ModelTensor& tensor);

// The scales beside codes of 8 or 4 bits, which the checksum of these has behind them; none where there are none.
std::span<const std::uint8_t> scale_bytes(const Checkpoint& checkpoint, const ModelTensor& tensor);

// Whether a tensor that is not ternary has the checksum that the file says, if it says one: of its bytes, or found
// before.
Status check_bytes(const Checkpoint& checkpoint, const ModelTensor& tensor);
Status check_bytes(const ModelTensor& tensor, std::uint64_t found);

// The elements of a float tensor of any type as f32, exactly; f64 and types that are not computed with are refused.
Result<std::vector<float>> read_floats(const Checkpoint& checkpoint, std::size_t index);

}  // namespace tern
