// write_model(): tensor by tensor through a few buffers, written while the next is computed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "base/errors.h"
#include "format/checksum.h"
#include "io/output_file.h"
#include "ops/ranges.h"
#include "plan/context_state.h"
#include "plan/run_once.h"
#include "runtime/bitnet_match.h"
#include "runtime/cast_floats.h"
#include "runtime/coded_weights.h"
#include "runtime/encode_weights.h"
#include "runtime/model_plan.h"
#include "runtime/quality_of.h"
#include "runtime/read_weights.h"
#include "runtime/tern_keys.h"
#include "runtime/write_behind.h"
#include "simd/half.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "write_model";
constexpr std::size_t kMaxKept = 4;                         // a model has about as many shapes of matrices
constexpr std::size_t kPieceBytes = std::size_t{16} << 20;  // of tensors that go through unchanged, or cast

class Clock {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Two buffers that grow to the largest tensor and are used again: fresh memory would cost a pass of its own.
class Buffers {
 public:
  struct Buffer {
    std::unique_ptr<std::uint8_t[]> memory;
    std::size_t capacity = 0;
    bool free = true;
  };
  // Waits until one is free. Null: no memory.
  Buffer* take(std::size_t bytes) {
    std::unique_lock lock(mutex_);
    const auto free = [this] { return std::find_if(two_.begin(), two_.end(), [](auto& b) { return b.free; }); };
    changed_.wait(lock, [&] { return free() != two_.end(); });
    Buffer& buffer = *free();
    if (buffer.capacity < bytes) {
      buffer.memory.reset();
      buffer.memory.reset(new (std::nothrow) std::uint8_t[bytes]);  // not set to zeros
      buffer.capacity = buffer.memory ? bytes : 0;
      if (!buffer.memory) return nullptr;
    }
    buffer.free = false;
    return &buffer;
  }
  void give_back(Buffer* buffer) {
    {
      const std::lock_guard lock(mutex_);
      buffer->free = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Buffer, 2> two_;
};

class Pipeline {
 public:
  Pipeline(const Context& context, const Model& model, const ModelPlan& plan, const ModelProgress& progress,
           CheckpointWriter& writer)
      : context_(context),
        threads_(context.state().threads),
        model_(model),
        plan_(plan),
        progress_(progress),
        writer_(writer),
        behind_(writer) {
    report_.tensors.resize(plan.tensors.size());
    for (const TensorPlan& tensor : plan.tensors)
      if (tensor.action != Action::drop) total_bytes_ += tensor.in_bytes;
  }

  Result<ModelReport> run() {
    const Clock all;
    std::map<std::string_view, std::size_t> by_name, by_scale;
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i) {
      if (plan_.tensors[i].action == Action::drop) continue;
      by_name.emplace(plan_.tensors[i].name, i);
      if (!plan_.tensors[i].scale_name.empty()) by_scale.emplace(plan_.tensors[i].scale_name, i);
    }
    scales_.resize(plan_.tensors.size());
    for (std::size_t i = 0; i < writer_.tensors().size(); ++i) {
      const StoredTensor& stored = writer_.tensors()[i];
      if (const auto scale = by_scale.find(stored.name); scale != by_scale.end()) {
        scales_[scale->second].writer_index = i;
        TERN_RETURN_IF_ERROR(zeros(stored.bytes));
      } else {
        TERN_RETURN_IF_ERROR(tensor(by_name.at(stored.name), stored.bytes));
      }
    }
    TERN_RETURN_IF_ERROR(behind_.finish());
    report_.waiting_seconds = behind_.waited_seconds() + waited_seconds_;
    TERN_RETURN_IF_ERROR(settle());
    const Clock flush;
    TERN_RETURN_IF_ERROR(writer_.finish());
    report_.flush_seconds = flush.seconds();
    report_.seconds = all.seconds();
    report_.file_bytes = writer_.file_bytes();
    return std::move(report_);
  }

 private:
  struct Scales {
    std::size_t writer_index = 0;
    std::vector<std::uint8_t> bytes;
  };

  Status told(const TensorPlan& tensor, std::size_t bytes) {
    done_bytes_ += bytes;
    if (progress_ && !progress_(tensor.name, done_bytes_, total_bytes_))
      return error(Code::invalid_argument, kWhere, "stopped by the caller; nothing was written");
    return {};
  }

  Status zeros(std::size_t bytes) {
    while (bytes > 0) {
      static constexpr std::array<std::uint8_t, 4096> kZeros{};
      const std::size_t some = std::min(bytes, kZeros.size());
      TERN_RETURN_IF_ERROR(behind_.push(std::span(kZeros).first(some), {}));
      bytes -= some;
    }
    return {};
  }

  Result<Buffers::Buffer*> buffer(std::size_t bytes) {
    const Clock clock;
    Buffers::Buffer* taken = buffers_.take(bytes);
    waited_seconds_ += clock.seconds();
    if (taken == nullptr)
      return error(Code::memory_allocation, kWhere, "there are no {} bytes of memory for a tensor", bytes);
    return taken;
  }
  Status push(Buffers::Buffer* buffer, std::size_t bytes) {
    return behind_.push({buffer->memory.get(), bytes}, [this, buffer] { buffers_.give_back(buffer); });
  }

  Status tensor(std::size_t i, std::size_t bytes) {
    const TensorPlan& plan = plan_.tensors[i];
    Status status;
    switch (plan.action) {
      case Action::quantize:
        TERN_RETURN_IF_ERROR(check_bytes(model_.checkpoint(), model_.tensors()[plan.input]));
        status = quantize(i, bytes);
        break;
      case Action::repack: status = repack(i, bytes); break;
      case Action::cast: return cast(i);
      case Action::copy: return copy(i);
      case Action::drop: return {};
    }
    if (status.ok()) return told(plan, plan.in_bytes);
    Error why = std::move(status).error();
    why.message = fmt::format("'{}': {}", escaped(model_.tensors()[plan.input].name), why.message);
    return why;
  }

  Status copy(std::size_t i) {
    const TensorPlan& plan = plan_.tensors[i];
    const ModelTensor& input = model_.tensors()[plan.input];
    const std::size_t index = input.index;
    const std::span<const std::uint8_t> bytes = model_.checkpoint().data(index);
    RunningChecksum sum;
    for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const std::size_t some = std::min(kPieceBytes, bytes.size() - at);
      sum.add(bytes.subspan(at, some));
      TERN_RETURN_IF_ERROR(behind_.push(bytes.subspan(at, some),
                                        [this, index, at, some] { model_.checkpoint().release(index, at, some); }));
      TERN_RETURN_IF_ERROR(told(plan, some));
    }
    const std::span<const std::uint8_t> scales = scale_bytes(model_.checkpoint(), input);
    sum.add(scales);
    scales_[i].bytes.assign(scales.begin(), scales.end());
    report_.tensors[i].checksum = sum.value();
    return check_bytes(input, sum.value());
  }

  // To 8 or 4 bits: blocks of GGUF, or codes and scales apart.
  Status cast_codes(std::size_t i) {
    const TensorPlan& plan = plan_.tensors[i];
    const ModelTensor& input = model_.tensors()[plan.input];
    const DType from = *info(input.type).dtype;
    const bool blocks = plan.scale_name.empty();
    const std::span<const std::uint8_t> bytes = model_.checkpoint().data(input.index);
    CodedLoss all;
    RunningChecksum before, after;
    for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const std::span<const std::uint8_t> some = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
      const std::size_t out_bytes = coded_bytes(*plan.codes, blocks, some.size() / size_of(from));
      TERN_ASSIGN(taken, buffer(out_bytes));
      const std::span<std::uint8_t> out{taken->memory.get(), out_bytes};
      const CodedLoss loss = blocks ? cast_to_blocks(threads_, some, from, *plan.codes, out)
                                    : cast_to_codes(threads_, some, from, *plan.codes, out, scales_[i].bytes);
      if (loss.bad_element >= 0) {
        const std::int64_t element = static_cast<std::int64_t>(at / size_of(from)) + loss.bad_element;
        buffers_.give_back(taken);
        return error_at(element, Code::non_finite, kWhere,
                        "'{}': the block of elements {} to {} has a value that is not finite, or a scale beyond f16",
                        escaped(input.name), element, element + kCodedGroup - 1);
      }
      all.signal += loss.signal;
      all.noise += loss.noise;
      if (input.checksum) before.add(some);
      after.add(out);
      TERN_RETURN_IF_ERROR(push(taken, out_bytes));
      model_.checkpoint().release(input.index, at, some.size());
      TERN_RETURN_IF_ERROR(told(plan, some.size()));
    }
    after.add(scales_[i].bytes);
    if (all.signal > 0) report_.tensors[i].cast_sqnr_db = 10 * std::log10(all.signal / all.noise);
    report_.tensors[i].checksum = after.value();
    return check_bytes(input, before.value());
  }

  Status cast(std::size_t i) {
    const TensorPlan& plan = plan_.tensors[i];
    if (plan.codes) return cast_codes(i);
    const ModelTensor& input = model_.tensors()[plan.input];
    const DType from = *info(input.type).dtype, to = *info(plan.type).dtype;
    const std::span<const std::uint8_t> bytes = model_.checkpoint().data(input.index);
    CastLoss loss;
    RunningChecksum before, after;
    for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const std::size_t some = std::min(kPieceBytes, bytes.size() - at), out = some / size_of(from) * size_of(to);
      TERN_ASSIGN(taken, buffer(out));
      loss.add(cast_floats(threads_, bytes.subspan(at, some), from, {taken->memory.get(), out}, to));
      if (input.checksum) before.add(bytes.subspan(at, some));
      after.add({taken->memory.get(), out});
      TERN_RETURN_IF_ERROR(push(taken, out));
      model_.checkpoint().release(input.index, at, some);
      TERN_RETURN_IF_ERROR(told(plan, some));
    }
    report_.tensors[i].largest_change = loss.largest_change;
    report_.tensors[i].overflowed = loss.overflowed;
    report_.tensors[i].underflowed = loss.underflowed;
    report_.tensors[i].checksum = after.value();
    return check_bytes(input, before.value());
  }

  Status repack(std::size_t i, std::size_t bytes) {
    const TensorPlan& plan = plan_.tensors[i];
    const ModelTensor& input = model_.tensors()[plan.input];
    TERN_ASSIGN(weights, read_weights(context_, model_.checkpoint(), input));
    model_.checkpoint().release(input.index, 0, model_.checkpoint().data(input.index).size());
    TERN_ASSIGN(fitted, fitted_scales(weights, plan, plan_.lossy));
    return encode(i, weights, fitted, bytes);
  }

  Status quantize(std::size_t i, std::size_t bytes) {
    const TensorPlan& plan = plan_.tensors[i];
    const ModelTensor& input = model_.tensors()[plan.input];
    const ConstTensorView x{model_.checkpoint().data(input.index).data(), *info(input.type).dtype,
                            Shape{input.n(), input.k()}};
    QuantizeOptions how;
    how.scheme = plan_.scheme;
    how.granularity = plan_.granularity;
    how.format = Format::i2;
    how.non_finite = plan_.non_finite;
    how.preference = plan_.preference;
    QuantizedTensor weights;
    std::optional<double> threshold;
    if (plan_.match_bitnet) {
      TERN_ASSIGN(match, quantize_like_bitnet(context_, x, how));
      weights = std::move(match.weights);
      threshold = match.threshold;
    } else if (context_.device().id.kind == DeviceKind::cpu) {
      TERN_ASSIGN(made, quantize_here(x, how));
      weights = std::move(made);
    } else {
      TERN_ASSIGN(made, tern::quantize(context_, x, how));
      weights = std::move(made);
    }
    report_.kernel = weights.kernel;
    // Quantizing loses more than rounding the scales does, and the quality below is that of the rounded ones.
    TERN_ASSIGN(fitted, fitted_scales(weights, plan, Lossy::allow));
    TensorReport& report = report_.tensors[i];
    report.trits = count_trits(threads_, weights);
    const QualityInput measured{.x = x,
                                .weights = weights,
                                .scales = fitted.scales,
                                .granularity = plan.granularity,
                                .threshold = threshold,
                                .trits = report.trits,
                                .non_finite = plan_.non_finite};
    TERN_ASSIGN(quality, quality_of(context_, measured));
    report.quality = quality;
    if (plan_.histograms) report.histogram = histogram_of(measured);
    model_.checkpoint().release(input.index, 0, model_.checkpoint().data(input.index).size());
    Status encoded = encode(i, weights, fitted, bytes);
    if (kept_.size() == kMaxKept) kept_.erase(kept_.begin());
    kept_.push_back(std::move(weights));
    return encoded;
  }

  // quantize() into the memory of a tensor before, where one had the same shape, as in models they have: fresh pages
  // cost as much as writing the codes.
  Result<QuantizedTensor> quantize_here(const ConstTensorView& x, const QuantizeOptions& how) {
    const Shape shape = x.shape;
    const TernaryQuantize::Problem problem{.rows = shape[0],
                                           .k = shape[1],
                                           .dtype = x.dtype,
                                           .scheme = how.scheme,
                                           .granularity = how.granularity,
                                           .format = Format::i2,
                                           .non_finite = how.non_finite};
    const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const QuantizedTensor& q) {
      return q.shape == shape && q.granularity == how.granularity;
    });
    if (kept == kept_.end()) return tern::quantize(context_, x, how);
    TERN_ASSIGN(plan, TernaryQuantizePlan::select(context_, problem, how.preference));
    QuantizedTensor q = std::move(*kept);
    kept_.erase(kept);
    q.kernel = plan.id().kernel;
    TERN_RETURN_IF_ERROR(run_once(context_, plan, {.x = x, .codes = q.codes.view(), .scales = q.scales.view()}));
    return q;
  }

  Status encode(std::size_t i, const QuantizedTensor& weights, const FittedScales& fitted, std::size_t bytes) {
    const TensorPlan& plan = plan_.tensors[i];
    TensorReport& report = report_.tensors[i];
    TERN_ASSIGN(taken, buffer(bytes));
    const std::span<std::uint8_t> out{taken->memory.get(), bytes};
    if (Status encoded = encode_weights(threads_, weights, plan.layout, fitted.scales, out); !encoded.ok()) {
      buffers_.give_back(taken);
      return encoded;
    }
    TERN_RETURN_IF_ERROR(push(taken, bytes));
    if (plan.action == Action::repack) report.trits = count_trits(threads_, weights);
    const auto [least, most] = std::minmax_element(fitted.scales.begin(), fitted.scales.end());
    if (!fitted.scales.empty()) {
      report.smallest_scale = *least;
      report.largest_scale = *most;
    }
    report.scale_loss = fitted.loss;
    const std::span<const std::uint8_t> scale_bytes{reinterpret_cast<const std::uint8_t*>(fitted.scales.data()),
                                                    fitted.scales.size() * sizeof(float)};
    report.checksum = checksum(weights.quantized_data(), scale_bytes);
    if (!plan.scale_name.empty()) keep_scales(i, fitted.scales);
    return {};
  }

  void keep_scales(std::size_t i, std::span<const float> scales) {
    std::vector<std::uint8_t>& bytes = scales_[i].bytes;
    const bool half = plan_.tensors[i].scale_type == StoredType::bf16;  // planned only where it is exact
    bytes.resize(scales.size() * (half ? sizeof(std::uint16_t) : sizeof(float)));
    for (std::size_t s = 0; s < scales.size(); ++s) {
      const std::uint16_t bits = simd::to_bf16(scales[s]);
      if (half) {
        std::memcpy(bytes.data() + s * sizeof bits, &bits, sizeof bits);
      } else {
        std::memcpy(bytes.data() + s * sizeof(float), &scales[s], sizeof(float));
      }
    }
  }

  // What is known only now: the scales that lie apart, and the checksums.
  Status settle() {
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i)
      if (!scales_[i].bytes.empty()) TERN_RETURN_IF_ERROR(writer_.overwrite(scales_[i].writer_index, scales_[i].bytes));
    std::map<std::string, std::size_t> keys;
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i)
      if (report_.tensors[i].checksum) keys.emplace(keys::checksum_of(plan_.tensors[i].name), i);
    if (keys.empty()) return {};
    Metadata metadata = plan_.metadata;
    for (MetaEntry& entry : metadata)
      if (const auto found = keys.find(entry.key); found != keys.end())
        entry.value = MetaValue(keys::checksum_text(*report_.tensors[found->second].checksum));
    return writer_.replace_metadata(metadata);
  }

  const Context& context_;
  const Threads& threads_;
  const Model& model_;
  const ModelPlan& plan_;
  const ModelProgress& progress_;
  CheckpointWriter& writer_;
  std::size_t done_bytes_ = 0, total_bytes_ = 0;
  double waited_seconds_ = 0;
  std::vector<Scales> scales_;
  ModelReport report_;
  std::vector<QuantizedTensor> kept_;  // of the last tensors that were quantized
  Buffers buffers_;
  WriteBehind behind_;  // last, so that it ends before what it uses
};

// Whether the plan was made of this model, or of one with the same tensors.
Status check_fits(const ModelPlan& plan, const Model& model) {
  const std::span<const ModelTensor> tensors = model.tensors();
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.input >= tensors.size())
      return error(Code::invalid_argument, kWhere, "the plan reads tensor {} of a model that has {}; plan this model",
                   tensor.input, tensors.size());
    const ModelTensor& input = tensors[tensor.input];
    if (tensor.input_name != input.name || tensor.input_type != input.type || tensor.in_bytes != input.bytes)
      return error(Code::invalid_argument, kWhere,
                   "the plan reads '{}', {} of {} bytes, where this model has '{}', {} of {}; plan this model",
                   escaped(tensor.input_name), name(tensor.input_type), tensor.in_bytes, escaped(input.name),
                   name(input.type), input.bytes);
  }
  return {};
}

// The output must not be a file that the model is read from: its shards, their index, the configuration beside them.
Status check_output(const Model& model, const std::string& output) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string& opened = model.checkpoint().path();
  const fs::path folder = fs::is_directory(opened, ignored) ? fs::path(opened) : fs::path(opened).parent_path();
  std::vector<std::string> read = {opened, (folder / "config.json").string(),
                                   (folder / "model.safetensors.index.json").string()};
  for (const CheckpointFile& file : model.checkpoint().files()) read.push_back(file.path);
  for (const std::string& path : read)
    if (same_file(path, output))
      return error(Code::invalid_argument, kWhere, "'{}' is the input; choose another output", output);
  return {};
}

}  // namespace

Result<ModelReport> write_model(const Context& context, const Model& model, const ModelPlan& plan,
                                const std::string& output, const ModelProgress& progress) {
  TERN_RETURN_IF_ERROR(check_fits(plan, model));
  TERN_RETURN_IF_ERROR(check_output(model, output));
  remove_stale_outputs(output);
  TERN_ASSIGN(writer,
              CheckpointWriter::create(output, plan.container, plan.metadata, stored_tensors(plan, model.tensors())));
  return Pipeline(context, model, plan, progress, writer).run();
}

}  // namespace tern
