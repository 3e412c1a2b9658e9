// write_model(): writes tensor by tensor, and each tensor piece by piece.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "base/checked.h"
#include "base/errors.h"
#include "format/layout.h"
#include "model/byte_line.h"
#include "model/convert_matrix.h"
#include "model/gpu_feed.h"
#include "model/model_files.h"
#include "model/model_plan.h"
#include "model/quantized_rows.h"
#include "model/read_weights.h"
#include "model/tern_keys.h"
#include "model/write_checks.h"
#include "plan/context_state.h"
#include "plan/quality.h"

namespace tern {
namespace {

class Pipeline {
 public:
  Pipeline(const Context& context, const Model& model, const ModelPlan& plan, const ModelProgress& progress,
           CheckpointWriter& writer)
      : context_(context),
        model_(model),
        plan_(plan),
        progress_(progress),
        writer_(writer),
        files_(model.checkpoint(), writer, context.state().threads),
        feed_(context, files_.clock) {
    report_.tensors.resize(plan.tensors.size());
    for (const TensorPlan& tensor : plan.tensors) {
      if (tensor.action != Action::drop) total_bytes_ += tensor.in_bytes;
      if (tensor.action == Action::quantize || tensor.action == Action::repack) matrix_bytes_ += tensor.in_bytes;
    }
  }

  Result<ModelReport> run() {
    const Stopwatch all;
    std::map<std::string_view, std::size_t> by_name, by_scale;
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i) {
      if (plan_.tensors[i].action == Action::drop) continue;
      by_name.emplace(plan_.tensors[i].name, i);
      if (!plan_.tensors[i].scale_name.empty()) by_scale.emplace(plan_.tensors[i].scale_name, i);
    }
    scales_.resize(plan_.tensors.size());
    for (const StoredTensor& stored : writer_.tensors())
      if (const auto found = by_name.find(stored.name); found != by_name.end() && goes_through_gpu_feed(found->second))
        gpu_queue_.push_back(found->second);
    for (std::size_t i = 0; i < writer_.tensors().size(); ++i) {
      const StoredTensor& stored = writer_.tensors()[i];
      const auto scale = by_scale.find(stored.name);
      const std::size_t of = scale != by_scale.end() ? scale->second : by_name.at(stored.name);
      const bool is_scale = scale != by_scale.end(), is_copy = !is_scale && plan_.tensors[of].action == Action::copy;
      if (is_scale) scales_[of].writer_index = i;
      if (is_copy) copies_.emplace_back(of, i);
      if (!is_scale && !is_copy) {
        TERN_RETURN_IF_ERROR(tensor(of));
      } else if (stored.bytes > 0) {
        TERN_RETURN_IF_ERROR(writer_.skip());
      }
    }
    for (; next_copy(); copying_.reset()) TERN_RETURN_IF_ERROR(copying_->run());
    TERN_RETURN_IF_ERROR(settle());
    const Stopwatch flush;
    TERN_RETURN_IF_ERROR(writer_.finish());
    files_.clock.settle(all.seconds(), flush.seconds(), total_bytes_, report_);
    report_.file_bytes = writer_.file_bytes();
    return std::move(report_);
  }

 private:
  struct Scales {
    std::size_t writer_index = 0;
    std::vector<std::uint8_t> bytes;
  };

  [[nodiscard]] const ModelTensor& input(std::size_t i) const { return model_.tensors()[plan_.tensors[i].input]; }

  Status report_progress(std::size_t i, std::size_t bytes) {
    done_bytes_ += bytes;
    if (progress_ && !progress_(plan_.tensors[i].name, done_bytes_, total_bytes_))
      return error(Code::invalid_argument, "write_model", "stopped by the caller; nothing was written");
    return {};
  }

  ByteLine::Outcome outcome(std::size_t i) {
    return {report_.tensors[i], scales_[i].bytes, [this, i](std::size_t bytes) { return report_progress(i, bytes); }};
  }

  Status tensor(std::size_t i) {
    const Action action = plan_.tensors[i].action;
    Status status = action == Action::cast ? bytes(i) : action == Action::quantize ? quantize(i) : repack(i);
    if (status.ok() || files_.unrelated()) return status;
    Error why = std::move(status).error();
    why.message = fmt::format("'{}': {}", escaped(input(i).name), why.message);
    return why;
  }

  Status bytes(std::size_t i) {
    TERN_ASSIGN(step, ByteStep::of(model_.checkpoint(), input(i), plan_.tensors[i]));
    return ByteLine(files_, input(i), std::move(step), outcome(i)).run();
  }

  // Begins the next copy, unless one is under way; false: there is none.
  bool next_copy() {
    if (copying_ || copies_.empty()) return copying_.has_value();
    const auto [of, writer_index] = copies_.front();
    copies_.pop_front();
    copying_.emplace(files_, input(of), ByteStep(), outcome(of), writer_index);
    return true;
  }
  Status copy_piece() {
    if (!next_copy()) return {};
    TERN_RETURN_IF_ERROR(copying_->copy_piece());
    if (copying_->pieces_left() == 0) copying_.reset();
    return {};
  }
  // How many pieces to copy while a matrix of `in_bytes` is converted, so that copies and matrices end together.
  std::int64_t copies_during(std::size_t in_bytes) {
    std::int64_t waiting = copying_ ? copying_->pieces_left() : 0;
    for (const auto& [of, writer_index] : copies_)
      waiting += ceil_div(static_cast<std::int64_t>(model_.checkpoint().data(input(of).index).size()), kCopyBytes);
    const double share = static_cast<double>(in_bytes) / static_cast<double>(std::max(matrix_bytes_, in_bytes));
    matrix_bytes_ -= std::min(matrix_bytes_, in_bytes);
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(waiting) * share));
  }

  Status repack(std::size_t i) {
    TERN_ASSIGN(source, ImportedRows::make(model_.checkpoint(), input(i)));
    return convert(i,
                   {.source = *source, .plan = plan_.tensors[i], .lossy = plan_.lossy, .checksum = input(i).checksum});
  }

  [[nodiscard]] ConstTensorView floats(std::size_t i) const {
    const ModelTensor& tensor = input(i);
    return {model_.checkpoint().data(tensor.index).data(), *info(tensor.type).dtype, Shape{tensor.n(), tensor.k()}};
  }
  [[nodiscard]] QuantizeOptions how() const {
    QuantizeOptions how;
    how.scheme = plan_.match_bitnet ? Scheme::absmean : plan_.scheme;
    how.granularity = plan_.match_bitnet ? Granularity::tensor() : plan_.granularity;
    how.non_finite = plan_.non_finite;
    how.preference = plan_.preference;
    return how;
  }

  // The GPU, or the search for the scale, reads all of a matrix before its rows are converted.
  [[nodiscard]] bool reads_all_first() const {
    return context_.device().id.kind == DeviceKind::cuda || how().granularity == Granularity::tensor();
  }

  // ---- the next matrix is uploaded to the GPU while this one is converted ----

  [[nodiscard]] TernaryQuantize::Problem problem_of(std::size_t i) const {
    return {.rows = input(i).n(),
            .k = input(i).k(),
            .dtype = *info(input(i).type).dtype,
            .scheme = how().scheme,
            .granularity = how().granularity,
            .format = Format::i2,
            .non_finite = plan_.non_finite};
  }
  [[nodiscard]] bool goes_through_gpu_feed(std::size_t i) const {
    return context_.device().id.kind == DeviceKind::cuda && plan_.tensors[i].action == Action::quantize &&
           input(i).n() > 0 && input(i).k() > 0 && GpuFeed::fits(problem_of(i));
  }
  // Starts the next matrix; null if there is none.
  Result<GpuFeed::Matrix*> begin_next() {
    if (gpu_queue_.empty()) return static_cast<GpuFeed::Matrix*>(nullptr);
    const std::size_t i = gpu_queue_.front();
    gpu_queue_.pop_front();
    return feed_.begin(problem_of(i), floats(i), plan_.preference);
  }
  // What the GPU made of a matrix that was uploaded beforehand. The first one is uploaded here.
  Result<QuantizedRows::Made> from_gpu() {
    if (next_on_gpu_ == nullptr) {
      TERN_ASSIGN(first, begin_next());
      next_on_gpu_ = first;
      files_.for_each(first->pieces(), [&](std::int64_t piece) { first->upload(piece); });
    }
    return next_on_gpu_->wait();
  }

  Status quantize(std::size_t i) {
    TERN_RETURN_IF_ERROR(check_bytes(model_.checkpoint(), input(i)));
    const ConstTensorView x = floats(i);
    std::optional<QuantizedRows::Made> made;
    if (goes_through_gpu_feed(i)) {
      TERN_ASSIGN(from, from_gpu());
      made = std::move(from);
    } else if (reads_all_first()) {
      files_.fetch_all(model_.checkpoint().data(input(i).index));
    }
    TERN_ASSIGN(source, QuantizedRows::make(context_, pool_, x, how(), plan_.match_bitnet, made));
    report_.kernel = source->kernel();
    // Rounding the scales loses less than quantizing does; the quality is measured with the rounded ones.
    MatrixJob job{.source = *source,
                  .plan = plan_.tensors[i],
                  .lossy = Lossy::allow,
                  .x = &x,
                  .threshold = source->threshold(),
                  .non_finite = plan_.non_finite,
                  .instructions = source->instructions()};
    if (made) {
      auto next = begin_next();
      if (!next.ok()) return files_.unrelated(std::move(next).error());
      next_on_gpu_ = *next;
      job.parallel_tasks = next_on_gpu_ != nullptr ? next_on_gpu_->pieces() : 0;
      job.parallel_task = [this](std::int64_t piece) { next_on_gpu_->upload(piece); };
    }
    return convert(i, job);
  }

  Status convert(std::size_t i, MatrixJob job) {
    const TensorPlan& plan = plan_.tensors[i];
    const ModelTensor& tensor = input(i);
    job.write = [this](std::span<const std::uint8_t> bytes) { return files_.write(bytes); };
    job.serial_task = [this] { return files_.unrelated(copy_piece()); };
    job.serial_tasks = copies_during(plan.in_bytes);
    const std::span<const std::uint8_t> bytes = model_.checkpoint().data(tensor.index);
    // A layout in runs (hf_packed) spreads each of them over all of its bytes, so it is fetched at once and released at
    // the end. Other layouts store rows in about their order, so rows are fetched as needed.
    const bool at_end = tensor.ternary && row_of(tensor.layout->layout).runs > 1;
    if (at_end) files_.fetch_all(bytes);
    const auto end_of = [&](std::int64_t rows) {
      return static_cast<std::size_t>(static_cast<double>(bytes.size()) * static_cast<double>(rows) /
                                      static_cast<double>(tensor.n()));
    };
    if (!at_end && !(job.x != nullptr && reads_all_first()))
      job.fetch = [&](RowRange rows) {
        const std::size_t begin = end_of(rows.first);
        files_.fetch(bytes.subspan(begin, end_of(rows.first + rows.count) - begin));
      };
    job.clock = &files_.clock;
    std::size_t released = 0;
    job.done = [&](RowRange rows) {
      if (rows.first == 0) released = 0;
      const bool last = rows.first + rows.count == tensor.n();
      if (last || !at_end) files_.release(tensor.index, released, end_of(rows.first + rows.count), last);
    };
    TERN_ASSIGN(made, convert_matrix(context_, pool_, job));
    if (plan_.histograms && job.x != nullptr)
      made.report.histogram = histogram_of(*job.x, made.decided, job.source.granularity());
    report_.tensors[i] = std::move(made.report);
    if (!plan.scale_name.empty()) scales_[i].bytes = bytes_of_scales(made.stored, plan.scale_type);
    return files_.unrelated(report_progress(i, plan.in_bytes));
  }

  // Writes what is known only at the end: separate scales, and the checksums.
  Status settle() {
    for (const Scales& scales : scales_)
      if (!scales.bytes.empty()) TERN_RETURN_IF_ERROR(files_.write(scales.bytes, scales.writer_index));
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
  const Model& model_;
  const ModelPlan& plan_;
  const ModelProgress& progress_;
  CheckpointWriter& writer_;
  std::size_t done_bytes_ = 0, total_bytes_ = 0, matrix_bytes_ = 0;
  std::vector<Scales> scales_;
  ModelFiles files_;
  // Copies are made one piece at a time, while other threads compute.
  std::deque<std::pair<std::size_t, std::size_t>> copies_;  // those that wait: index into the plan, and the writer's
  std::optional<ByteLine> copying_;
  BufferPool pool_;
  GpuFeed feed_;
  std::deque<std::size_t> gpu_queue_;       // matrices for the GPU, in their order
  GpuFeed::Matrix* next_on_gpu_ = nullptr;  // the matrix that is uploaded while the current one is converted
  ModelReport report_;
};

}  // namespace

Result<ModelReport> write_model(const Context& context, const Model& model, const ModelPlan& plan,
                                const std::string& output, const ModelProgress& progress) {
  TERN_RETURN_IF_ERROR(check_fits(plan, model));
  TERN_RETURN_IF_ERROR(check_output(model, output));
  TERN_ASSIGN(writer,
              CheckpointWriter::create(output, plan.container, plan.metadata, stored_tensors(plan, model.tensors())));
  return Pipeline(context, model, plan, progress, writer).run();
}

}  // namespace tern
