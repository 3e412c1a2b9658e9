// Models: checkpoints whose ternary tensors are understood, whatever their format, container and names. Quantized,
// converted and compared tensor by tensor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tern/checkpoint.h"
#include "tern/context.h"
#include "tern/export.h"
#include "tern/layout.h"
#include "tern/metadata.h"
#include "tern/quantize.h"
#include "tern/status.h"
#include "tern/types.h"

namespace tern {

class PackedWeights;

// What must be told where a file does not say it itself. Files that Tern wrote say everything.
struct ReadOptions {
  OpenOptions open = {};
  std::optional<Layout> i2_s = {};               // the order of i2_s bytes
  std::optional<WeightScale> weight_scale = {};  // of hf_packed; else config.json beside the file says it
  std::vector<KernelTiles> tiles = {};           // of tl1 and tl2
};

// One tensor of a model. The scales that lie in a tensor of their own belong to their weights and are not listed.
struct ModelTensor {
  std::string name;                 // as in the file: print it through escaped()
  std::string hf_name;              // as Hugging Face's Llama and BitNet name it; the same where it is not known
  std::vector<std::int64_t> shape;  // of the weights: [n, k] also where fewer bytes stand for them
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> stored_shape;  // as in the file
  std::size_t index = 0;                   // of Checkpoint::tensors()
  std::size_t bytes = 0;                   // with scales
  int gguf_id = -1;                        // as in the file

  // What the file says of trits and scales, or of the bytes of tensors that are not ternary.
  std::optional<std::uint64_t> checksum = {};

  // Of ternary weights alone:
  bool ternary = false;
  std::optional<LayoutSpec> layout = {};  // none: `unreadable` says what to give
  std::string unreadable = {};
  WeightScale weight_scale = WeightScale::multiplies;
  // Of weights of 8 and 4 bits alone, s8 or s4: Q8_0 and Q4_0 of GGUF, and what Tern writes to safetensors. They are no
  // ternary weights.
  std::optional<Format> codes = {};
  // Of both:
  std::optional<std::size_t> scales_index = {};  // of Checkpoint::tensors(), where scales lie apart
  StoredType scale_type = StoredType::f32;       // then
  Granularity granularity = {};

  [[nodiscard]] std::int64_t n() const { return shape.size() == 2 ? shape[0] : 0; }
  [[nodiscard]] std::int64_t k() const { return shape.size() == 2 ? shape[1] : 0; }
};

class Model {
 public:
  static TERN_API Result<Model> open(const std::string& path, const ReadOptions& options = {});

  [[nodiscard]] TERN_API const Checkpoint& checkpoint() const;
  [[nodiscard]] TERN_API std::span<const ModelTensor> tensors() const;                  // in the order of the file
  [[nodiscard]] TERN_API std::optional<std::size_t> find(std::string_view name) const;  // by either of its names
  [[nodiscard]] TERN_API const std::string& config_json() const;  // the text of config.json beside it; empty: none

  // Ternary weights as canonical i2 codes and scales, in host memory. A checksum that the file has must fit.
  [[nodiscard]] TERN_API Result<QuantizedTensor> read(const Context&, std::size_t index) const;

 private:
  struct Impl;
  explicit Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// "model.layers.3.mlp.up_proj.weight" and "blk.3.ffn_up.weight": the tensors of Llama and BitNet. Empty where the name
// is not one of them.
TERN_API std::string gguf_name(std::string_view hf_name);
TERN_API std::string hf_name(std::string_view gguf_name);

// Ternary weights, or weights of 8 or 4 bits, of a model as kernels read them, by their name in either container.
TERN_API Result<PackedWeights> load_weights(const Context&, const Model&, std::string_view tensor);

// What becomes of a tensor.
enum class Action : std::uint8_t {
  quantize,  // floats become trits and scales
  repack,    // trits stay the same, in other bytes
  cast,      // floats of another type, or of 8 or 4 bits
  copy,      // byte for byte
  drop,      // left out
};
TERN_API std::string_view name(Action);

struct WriteOptions {
  std::optional<Container> container = {};  // none: as the output's name ends, .gguf or .safetensors
  std::optional<Layout> layout = {};        // of ternary weights. None: i2_s.x86_128 in GGUF, i2 in safetensors
  std::vector<KernelTiles> tiles = {};      // of tl1 and tl2
  int tl2_id = 39;                          // of GGUF: 39 in bitnet.cpp's first fork, 42 in the later one

  bool quantize = true;  // false: floats stay floats
  Scheme scheme = Scheme::absmean;
  std::optional<Granularity> granularity = {};  // none: that of the layout, or tensor
  bool match_bitnet = false;                    // as BitNet's own converter computes: docs/numerics.md
  NonFinite non_finite = NonFinite::reject;

  // ECMAScript expressions that are searched for in names, as the file has them and as Hugging Face has them.
  std::string include = {};  // quantize these matrices alone
  std::string exclude = {};  // leave these as they are
  std::string drop = {};     // leave these out
  // f16, bf16, q8_0 or q4_0 for embeddings and the head; none: as they are. The last two are codes of 8 and 4 bits with
  // a scale for 32 columns: ggml's blocks in GGUF, s8 and s4 with scales beside them in safetensors.
  std::optional<StoredType> embeddings = {};

  Lossy lossy = Lossy::refuse;    // scales that the layout cannot hold. Those of quantize = true may be rounded to f16
  std::string architecture = {};  // general.architecture of GGUF; empty: by config.json
  bool histograms = false;        // of weights, for reports
  Preference preference = {};
};

// The tensor that is written for one that is read; scales that lie apart follow it.
struct TensorPlan {
  std::size_t input = 0;        // of Model::tensors()
  std::string input_name = {};  // its name and type there
  StoredType input_type = StoredType::f32;
  Action action = Action::copy;
  std::string why = {};  // "a projection", "a norm stays float"
  std::string name = {};
  StoredType type = StoredType::f32;
  std::size_t in_bytes = 0;
  std::size_t out_bytes = 0;  // with scales
  int gguf_id = -1;           // that is to stand in a GGUF file; -1: that of the type
  LayoutSpec layout = {};     // of quantize and repack
  // Of a cast to 8 or 4 bits, and of a copy of such weights whose scales lie apart
  std::optional<Format> codes = {};
  Granularity granularity = {};
  StoredType scale_type = StoredType::f32;  // where scales lie apart
  std::string scale_name = {};              // empty: they lie in the weights' bytes
};

struct ModelPlan {
  Container container = Container::safetensors;
  Layout layout = Layout::i2;
  std::vector<TensorPlan> tensors = {};
  Metadata metadata = {};
  std::vector<std::string> notes = {};  // what a person should know before: a tokenizer that is not converted, ...

  // How it is computed, as WriteOptions said it: what is written is what was planned.
  Scheme scheme = Scheme::absmean;
  Granularity granularity = {};  // of quantize; a layout may hold the scales by another, which TensorPlan has
  bool match_bitnet = false;
  NonFinite non_finite = NonFinite::reject;
  Lossy lossy = Lossy::refuse;
  bool histograms = false;
  Preference preference = {};

  [[nodiscard]] TERN_API std::size_t in_bytes() const;
  [[nodiscard]] TERN_API std::size_t out_bytes() const;
  [[nodiscard]] TERN_API std::size_t count(Action) const;
};

// Reads no tensor. A matrix whose shape the layout cannot hold is an unsupported that names it and the remedy.
TERN_API Result<ModelPlan> plan_model(const Model&, const std::string& output, const WriteOptions& = {});

struct TensorReport {
  std::optional<Quality> quality = {};          // of quantize
  std::array<std::int64_t, 3> trits = {};       // how many -1, 0, +1
  float smallest_scale = 0, largest_scale = 0;  // of trits
  std::optional<std::uint64_t> checksum = {};   // of trits and scales, or of plain bytes
  ScaleLoss scale_loss = {};                    // of scales
  double largest_change = 0;                    // of a cast: the largest relative change of a value
  std::int64_t overflowed = 0;                  // of a cast: values that became infinite
  std::int64_t underflowed = 0;                 // of a cast: values that changed below the type's normal range
  std::optional<double> cast_sqnr_db = {};      // of a cast to 8 or 4 bits
  std::vector<std::uint64_t> histogram = {};    // of w / scale from -4 to 4, when it was asked for
};

// What the threads of a conversion do, or wait for: pages of the input and, for a GPU, their way to pinned memory; the
// CPU's work; copies to a GPU and back; its kernels; the output.
enum class Stage : std::uint8_t { reading, computing, bus, gpu, writing };
inline constexpr std::size_t kStageCount = 5;
TERN_API std::string_view name(Stage);

struct StageTime {
  double seconds = 0;       // that threads spent with it, in the mean over them
  double busy_seconds = 0;  // that it worked itself: one thread writes, and a GPU works while threads do other things
  std::size_t bytes = 0;    // that it moved meanwhile; of computing, those of the input
  [[nodiscard]] TERN_API double gb_per_s() const;
};

struct ModelReport {
  std::vector<TensorReport> tensors = {};  // those of the plan
  std::size_t file_bytes = 0;
  std::string kernel = {};     // that quantized; empty: none did
  double seconds = 0;          // all together, of which ...
  double flush_seconds = 0;    // ... the disk took these at the end
  double waiting_seconds = 0;  // ... and the computation waited these for writes to end
  // The same seconds by what they were spent with: flushing and waiting are writing. The rest is idle: threads that had
  // nothing left to do while the last one ended.
  std::array<StageTime, kStageCount> stages = {};
  double idle_seconds = 0;
  [[nodiscard]] TERN_API const StageTime& spent(Stage) const;
  [[nodiscard]] TERN_API Stage limited_by() const;  // which took most
};

// What can be seen of one tensor: shares, scales and checksum of trits; of others the checksum, if the file has one,
// and it must fit. Where the order of i2_s is not known, shares and scale are told all the same: they do not depend on
// it.
TERN_API Result<TensorReport> inspect_tensor(const Context&, const Model&, std::size_t index);

// Told which tensor is at work and how many of how many bytes of input are done; false stops, and nothing is written.
using ModelProgress = std::function<bool(std::string_view tensor, std::size_t done_bytes, std::size_t total_bytes)>;

// Writes the model as planned: a plan of another model is refused. The output appears under its name when it is whole.
// Memory: some pieces of a matrix at a time (a few MiB for each thread, or a few rows where those are longer) and the
// scales of all; pages of the input are given back when they are done with. A GPU has two matrices, the one that is
// converted and the next, and pinned memory their codes.
TERN_API Result<ModelReport> write_model(const Context&, const Model&, const ModelPlan&, const std::string& output,
                                         const ModelProgress& progress = {});

// What two models have in common, tensor by tensor, by Hugging Face's names.
struct TensorDifference {
  enum class Kind : std::uint8_t { equal, differs, only_in_a, only_in_b };
  std::string name = {};
  Kind kind = Kind::equal;
  std::string what = {};  // "equal trits and scales", "17 trits differ, the first at [3, 129]: ..."
  std::int64_t elements = 0;
  std::int64_t differing_trits = 0;  // where both are ternary
  double largest_difference = 0;     // of a value, absolute
  std::int64_t first_index = -1;     // of a value that differs, row-major
};
TERN_API std::string_view name(TensorDifference::Kind);

struct ModelDifference {
  std::vector<TensorDifference> tensors = {};
  [[nodiscard]] TERN_API bool equal() const;
};
// Trits and scales must be equal as values: a scale that meets only zeros may differ. Floats are compared as values
// with floats of any type, and with what trits and scales make.
TERN_API Result<ModelDifference> compare_models(const Context&, const Model& a, const Model& b,
                                                const ModelProgress& progress = {});

}  // namespace tern
