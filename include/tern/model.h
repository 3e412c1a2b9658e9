// Models: checkpoints whose ternary tensors are recognised, whatever their format, container and names, and which can
// be quantized, converted and compared tensor by tensor.
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
#include <variant>
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

// What the caller must say where a file does not describe itself. Files written by Tern always do.
struct ReadOptions {
  OpenOptions open = {};
  std::optional<Layout> i2_s = {};               // the order of i2_s bytes
  std::optional<WeightScale> weight_scale = {};  // of hf_packed; none: from config.json beside the file
  std::vector<KernelTiles> tiles = {};           // of tl1 and tl2
};

// A tensor of the file that holds the scales of another.
struct SeparateScales {
  std::size_t index = 0;  // of Checkpoint::tensors()
  StoredType type = StoredType::f32;
};

// What a tensor is: each alternative has the fields that describe it, and no other.
struct PlainTensor {};  // floats, or bytes that pass through
struct TernaryTensor {
  std::optional<LayoutSpec> layout = {};  // none: `unreadable` says which option to give
  std::string unreadable = {};
  WeightScale weight_scale = WeightScale::multiplies;
  Granularity granularity = {};
  std::optional<SeparateScales> scales = {};  // none: they are inside the weights' bytes
};
// Weights of 8 or 4 bits: Q8_0 and Q4_0 of GGUF, s8 and s4 as Tern writes them to safetensors.
struct CodedTensor {
  Format format = Format::s8;
  Granularity granularity = {};
  std::optional<SeparateScales> scales = {};  // none: they are inside ggml's blocks
};
using TensorContent = std::variant<PlainTensor, TernaryTensor, CodedTensor>;

// One tensor of a model. A tensor that holds the scales of others is not listed separately.
struct ModelTensor {
  std::string name;                 // as in the file: print it through escaped()
  std::string hf_name;              // its name in Hugging Face's Llama and BitNet models, or `name`
  std::vector<std::int64_t> shape;  // of the weights: [n, k], even where the file stores fewer bytes
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> stored_shape;  // as in the file
  std::size_t index = 0;                   // of Checkpoint::tensors()
  std::size_t bytes = 0;                   // with scales
  int gguf_id = -1;                        // as in the file

  // The checksum in the file: of trits and scales, or of the bytes of a tensor that is not ternary.
  std::optional<std::uint64_t> checksum = {};

  // The fields of content(), side by side, as programs had them before it. hold() fills them in.
  bool ternary = false;
  std::optional<LayoutSpec> layout = {};
  std::string unreadable = {};
  WeightScale weight_scale = WeightScale::multiplies;
  std::optional<Format> codes = {};
  std::optional<std::size_t> scales_index = {};
  StoredType scale_type = StoredType::f32;
  Granularity granularity = {};

  [[nodiscard]] TERN_API TensorContent content() const;
  TERN_API void hold(const TensorContent& content);
  [[nodiscard]] std::int64_t n() const { return shape.size() == 2 ? shape[0] : 0; }
  [[nodiscard]] std::int64_t k() const { return shape.size() == 2 ? shape[1] : 0; }
};

class Model {
 public:
  static TERN_API Result<Model> open(const std::string& path, const ReadOptions& options = {});

  [[nodiscard]] TERN_API const Checkpoint& checkpoint() const;
  [[nodiscard]] TERN_API std::span<const ModelTensor> tensors() const;                  // in the order of the file
  [[nodiscard]] TERN_API std::optional<std::size_t> find(std::string_view name) const;  // either of its names will do
  // The text of the config.json in the same folder; empty if there is none.
  [[nodiscard]] TERN_API const std::string& config_json() const;

  // Ternary weights as canonical i2 codes and scales, in host memory. Verified against the file's checksum if it has
  // one.
  [[nodiscard]] TERN_API Result<QuantizedTensor> read(const Context&, std::size_t index) const;

 private:
  struct Impl;
  explicit Model(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Converts between "model.layers.3.mlp.up_proj.weight" and "blk.3.ffn_up.weight", for the tensors of Llama and BitNet.
// Empty if the name is not one of them.
TERN_API std::string gguf_name(std::string_view hf_name);
TERN_API std::string hf_name(std::string_view gguf_name);

// Weights of a model (ternary, or of 8 or 4 bits) packed for linear's kernels, by their name in either container.
TERN_API Result<PackedWeights> load_weights(const Context&, const Model&, std::string_view tensor);

// What is done with a tensor.
enum class Action : std::uint8_t {
  quantize,  // floats become trits and scales
  repack,    // the same trits in another layout
  cast,      // to another float type, or to 8 or 4 bits
  copy,      // byte for byte
  drop,      // left out
};
TERN_API std::string_view name(Action);

struct WriteOptions {
  std::optional<Container> container = {};  // none: from the extension of the output, .gguf or .safetensors
  std::optional<Layout> layout = {};        // of ternary weights. None: i2_s.x86_128 in GGUF, i2 in safetensors
  std::vector<KernelTiles> tiles = {};      // of tl1 and tl2
  int tl2_id = 39;                          // TL2's id in GGUF: 39 in bitnet.cpp's first fork, 42 in the later one

  bool quantize = true;  // false: floats are not quantized
  Scheme scheme = Scheme::absmean;
  std::optional<Granularity> granularity = {};  // none: that of the layout, or tensor
  bool match_bitnet = false;                    // round exactly as BitNet's own converter does: docs/numerics.md
  NonFinite non_finite = NonFinite::reject;

  // ECMAScript regular expressions, searched for in tensor names as the file spells them and as Hugging Face does.
  std::string include = {};  // quantize only these matrices
  std::string exclude = {};  // do not quantize these
  std::string drop = {};     // do not write these
  // The type of embeddings and the output head: f16, bf16, q8_0 or q4_0; none: unchanged. The last two are codes of 8
  // and 4 bits with a scale for each 32 columns: ggml's blocks in GGUF, s8 and s4 with a separate tensor of scales in
  // safetensors.
  std::optional<StoredType> embeddings = {};

  // What to do if the layout cannot hold the scales. Scales of newly quantized weights may always be rounded to f16.
  Lossy lossy = Lossy::refuse;
  std::string architecture = {};  // general.architecture of GGUF; empty: from config.json
  bool histograms = false;        // collect them for reports
  Preference preference = {};
};

// The tensor that is written for one that is read. A separate tensor of scales follows it.
struct TensorPlan {
  std::size_t input = 0;        // an index into Model::tensors()
  std::string input_name = {};  // its name and type there
  StoredType input_type = StoredType::f32;
  Action action = Action::copy;
  std::string why = {};  // "a projection", "a norm stays float"
  std::string name = {};
  StoredType type = StoredType::f32;
  std::size_t in_bytes = 0;
  std::size_t out_bytes = 0;  // with scales
  int gguf_id = -1;           // the id in a GGUF file; -1: the usual one of the type
  LayoutSpec layout = {};     // of quantize and repack
  // For a cast to 8 or 4 bits, and for a copy of such weights whose scales are a separate tensor:
  std::optional<Format> codes = {};
  Granularity granularity = {};
  StoredType scale_type = StoredType::f32;  // where scales are a separate tensor
  std::string scale_name = {};              // empty: the scales are inside the weights' bytes
};

struct ModelPlan {
  Container container = Container::safetensors;
  Layout layout = Layout::i2;
  std::vector<TensorPlan> tensors = {};
  Metadata metadata = {};
  std::vector<std::string> notes = {};  // what to know before writing: a tokenizer that is not converted, ...

  // The settings of WriteOptions with which the plan was made; write_model() uses these.
  Scheme scheme = Scheme::absmean;
  Granularity granularity = {};  // for quantize; a layout may store scales by another one, given in TensorPlan
  bool match_bitnet = false;
  NonFinite non_finite = NonFinite::reject;
  Lossy lossy = Lossy::refuse;
  bool histograms = false;
  Preference preference = {};

  [[nodiscard]] TERN_API std::size_t in_bytes() const;
  [[nodiscard]] TERN_API std::size_t out_bytes() const;
  [[nodiscard]] TERN_API std::size_t count(Action) const;
};

// Reads no tensor data. A matrix whose shape the layout cannot hold is an `unsupported` error that names it and the
// remedy.
TERN_API Result<ModelPlan> plan_model(const Model&, const std::string& output, const WriteOptions& = {});

struct TensorReport {
  std::optional<Quality> quality = {};          // of quantized tensors
  std::array<std::int64_t, 3> trits = {};       // the counts of -1, 0, +1
  float smallest_scale = 0, largest_scale = 0;  // of trits
  std::optional<std::uint64_t> checksum = {};   // of trits and scales, or of plain bytes
  ScaleLoss scale_loss = {};                    // what rounding the scales changed
  double largest_change = 0;                    // of a cast: the largest relative change of a value
  std::int64_t overflowed = 0;                  // of a cast: values that became infinite
  std::int64_t underflowed = 0;                 // of a cast: values that changed below the type's normal range
  std::optional<double> cast_sqnr_db = {};      // of a cast to 8 or 4 bits
  std::vector<std::uint64_t> histogram = {};    // of w / scale from -4 to 4, when it was asked for
};

// What threads spend a conversion's time on, or wait for: reading (pages of the input, and for a GPU copying them to
// pinned memory), the CPU's computation, copies to a GPU and back, its kernels, writing.
enum class Stage : std::uint8_t { reading, computing, bus, gpu, writing };
inline constexpr std::size_t kStageCount = 5;
TERN_API std::string_view name(Stage);

struct StageTime {
  double seconds = 0;  // that threads spent on it, averaged over threads
  // The time that the stage itself was active: one thread writes, and a GPU works while threads do other things.
  double busy_seconds = 0;
  std::size_t bytes = 0;  // that it processed in busy_seconds; for computing, bytes of the input
  [[nodiscard]] TERN_API double gb_per_s() const;
};

struct ModelReport {
  std::vector<TensorReport> tensors = {};  // those of the plan
  std::size_t file_bytes = 0;
  std::string kernel = {};     // that quantized; empty if none did
  double seconds = 0;          // the whole call; of this ...
  double flush_seconds = 0;    // ... for flushing to the disk at the end
  double waiting_seconds = 0;  // ... for computation that waited until writes ended
  // The same seconds by stage; flushing and waiting count as writing. The remainder is idle: threads that had no work
  // left while the last one finished.
  std::array<StageTime, kStageCount> stages = {};
  double idle_seconds = 0;
  [[nodiscard]] TERN_API const StageTime& spent(Stage) const;
  [[nodiscard]] TERN_API Stage limited_by() const;  // the stage that took most time
};

// Examines one tensor: for trits their shares, the range of scales and the checksum; for others the checksum, if the
// file has one. A checksum in the file must match. An unknown order of i2_s does not matter here, since shares and
// scale do not depend on it.
TERN_API Result<TensorReport> inspect_tensor(const Context&, const Model&, std::size_t index);

// Called with the tensor at work and the bytes of input done and in total; return false to stop. Nothing is written
// then.
using ModelProgress = std::function<bool(std::string_view tensor, std::size_t done_bytes, std::size_t total_bytes)>;

// Writes the model as planned; refuses a plan that was made for another model. The output appears under its name only
// when it is complete. Memory use: some pieces of a matrix at a time (a few MiB for each thread, or a few rows where
// those are longer) and the scales of the whole model; pages of the input are released as soon as they are done with. A
// GPU holds two matrices, the one that is converted and the next, and pinned memory holds their codes.
TERN_API Result<ModelReport> write_model(const Context&, const Model&, const ModelPlan&, const std::string& output,
                                         const ModelProgress& progress = {});

// How a tensor differs between two models, matched by Hugging Face's names.
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
// Trits and scales must be equal as values; the scale of a group whose trits are all 0 may differ. Floats are compared
// by value with floats of any type, and with the values that trits and scales stand for.
TERN_API Result<ModelDifference> compare_models(const Context&, const Model& a, const Model& b,
                                                const ModelProgress& progress = {});

}  // namespace tern
