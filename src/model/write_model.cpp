// write_model(): writes tensor by tensor, and each tensor piece by piece.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "base/checked.h"
#include "base/errors.h"
#include "format/checksum.h"
#include "format/layout.h"
#include "io/little_endian.h"
#include "io/mapped_file.h"
#include "model/cast_floats.h"
#include "model/coded_weights.h"
#include "model/convert_matrix.h"
#include "model/conveyor.h"
#include "model/gpu_feed.h"
#include "model/model_plan.h"
#include "model/quantized_rows.h"
#include "model/read_weights.h"
#include "model/stage_clock.h"
#include "model/tern_keys.h"
#include "model/write_checks.h"
#include "plan/context_state.h"
#include "plan/quality.h"

namespace tern {
namespace {

constexpr std::string_view kWhere = "write_model";
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;      // tensors are cast and copied in pieces of this size
constexpr std::size_t kReleaseBytes = std::size_t{16} << 20;  // large: each call interrupts other cores (TLB shootdown)

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
        clock_(context.threads()),
        feed_(context, clock_) {
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
      if (scale != by_scale.end() || plan_.tensors[of].action == Action::copy) {
        if (stored.bytes > 0) TERN_RETURN_IF_ERROR(writer_.skip());
        if (scale != by_scale.end()) {
          scales_[of].writer_index = i;
        } else {
          copies_.push_back(Copy{of, i, model_.checkpoint().data(input(of).index)});
        }
      } else {
        TERN_RETURN_IF_ERROR(tensor(of));
      }
    }
    while (!copies_.empty()) TERN_RETURN_IF_ERROR(copy_rest());
    TERN_RETURN_IF_ERROR(settle());
    const Stopwatch flush;
    TERN_RETURN_IF_ERROR(writer_.finish());
    clock_.settle(all.seconds(), flush.seconds(), total_bytes_, report_);
    report_.file_bytes = writer_.file_bytes();
    return std::move(report_);
  }

 private:
  struct Scales {
    std::size_t writer_index = 0;
    std::vector<std::uint8_t> bytes;
  };
  // A tensor that is copied unchanged.
  struct Copy {
    std::size_t plan_index, writer_index;
    std::span<const std::uint8_t> bytes;
    std::size_t done = 0, released = 0;
    std::unique_ptr<RunningChecksum> sum = std::make_unique<RunningChecksum>();
  };

  [[nodiscard]] const ModelTensor& input(std::size_t i) const { return model_.tensors()[plan_.tensors[i].input]; }

  Status report_progress(std::size_t i, std::size_t bytes) {
    done_bytes_ += bytes;
    if (progress_ && !progress_(plan_.tensors[i].name, done_bytes_, total_bytes_))
      return error(Code::invalid_argument, kWhere, "stopped by the caller; nothing was written");
    return {};
  }

  Status tensor(std::size_t i) {
    const TensorPlan& plan = plan_.tensors[i];
    const bool recoded = plan.action == Action::cast && input(i).codes;
    if (plan.action == Action::cast && !recoded) return cast(i);
    Status status = recoded ? recode(i) : plan.action == Action::quantize ? quantize(i) : repack(i);
    if (status.ok()) return report_progress(i, plan.in_bytes);
    if (!unrelated_error_.ok()) return std::move(unrelated_error_);
    Error why = std::move(status).error();
    why.message = fmt::format("'{}': {}", escaped(input(i).name), why.message);
    return why;
  }
  // Remembers an error that has nothing to do with the current tensor; tensor() returns it without the tensor's name.
  Status unrelated(Status status) {
    if (!status.ok()) unrelated_error_ = Error(status.error());
    return status;
  }

  // ---- reading and writing files, timed ----

  void fetch(std::span<const std::uint8_t> bytes) {
    const Stopwatch reading;
    fetch_pages(bytes);
    clock_.spent(Stage::reading, reading.seconds());
    clock_.busy(Stage::reading, 0, bytes.size());
  }
  // Calls part(0) to part(count - 1), each once, on all threads.
  void for_each(std::int64_t count, const std::function<void(std::int64_t)>& part) {
    const auto work = [&](std::int64_t item, std::int64_t) {
      part(item);
      return Status();
    };
    const auto nothing = [](std::int64_t, std::int64_t) { return Status(); };
    (void)Conveyor(threads_, 4 * threads_.count(), &clock_).run(count, work, nothing).ok();
  }
  // Reads all pages in order, before threads access them in any order.
  void fetch_all(std::span<const std::uint8_t> bytes) {
    for_each(ceil_div(static_cast<std::int64_t>(bytes.size()), kCopyBytes), [&](std::int64_t item) {
      const std::size_t at = static_cast<std::size_t>(item) * kCopyBytes;
      fetch(bytes.subspan(at, std::min(kCopyBytes, bytes.size() - at)));
    });
  }
  Status timed(const Stopwatch& writing, std::size_t bytes, Status status) {
    const double seconds = writing.seconds();
    clock_.spent(Stage::writing, seconds);
    clock_.busy(Stage::writing, seconds, bytes);
    return status;
  }
  Status write(std::span<const std::uint8_t> bytes) {
    const Stopwatch writing;
    return timed(writing, bytes.size(), writer_.write(bytes));
  }
  Status fill(std::size_t writer_index, std::span<const std::uint8_t> bytes) {
    const Stopwatch writing;
    return timed(writing, bytes.size(), writer_.fill(writer_index, bytes));
  }

  // ---- copies: one piece at a time, while other threads compute ----

  Status fill(Copy& copy, std::size_t most) {
    const std::span<const std::uint8_t> bytes = copy.bytes.subspan(copy.done).first(most);
    TERN_RETURN_IF_ERROR(fill(copy.writer_index, bytes));
    copy.done += most;
    if (copy.done - copy.released >= kReleaseBytes || copy.done == copy.bytes.size()) {
      model_.checkpoint().release(input(copy.plan_index).index, copy.released, copy.done - copy.released);
      copy.released = copy.done;
    }
    return report_progress(copy.plan_index, most);
  }
  Status copy_piece() {
    if (copies_.empty()) return {};
    Copy& copy = copies_.front();
    const std::size_t some = std::min(kCopyBytes, copy.bytes.size() - copy.done);
    fetch(copy.bytes.subspan(copy.done, some));
    copy.sum->add(copy.bytes.subspan(copy.done, some));
    TERN_RETURN_IF_ERROR(fill(copy, some));
    return copy.done == copy.bytes.size() ? copied() : Status();
  }
  Status copied() {
    const Copy copy = std::move(copies_.front());
    copies_.pop_front();
    const std::span<const std::uint8_t> scales = scale_bytes(model_.checkpoint(), input(copy.plan_index));
    copy.sum->add(scales);
    scales_[copy.plan_index].bytes.assign(scales.begin(), scales.end());
    report_.tensors[copy.plan_index].checksum = copy.sum->value();
    return check_bytes(input(copy.plan_index), copy.sum->value());
  }
  // When nothing is left to compute: one thread computes the checksum, another writes.
  Status copy_rest() {
    Copy& copy = copies_.front();
    const std::size_t begin = copy.done;
    Conveyor both(threads_, 2, &clock_);
    Status status = both.run(
        2,
        [&](std::int64_t item, std::int64_t) -> Status {
          for (std::size_t at = begin; item == 0 && at < copy.bytes.size(); at += kCopyBytes) {
            const auto some = copy.bytes.subspan(at, std::min(kCopyBytes, copy.bytes.size() - at));
            fetch(some);
            copy.sum->add(some);
          }
          while (item == 1 && copy.done < copy.bytes.size())
            TERN_RETURN_IF_ERROR(fill(copy, std::min(kCopyBytes, copy.bytes.size() - copy.done)));
          return {};
        },
        [](std::int64_t, std::int64_t) { return Status(); });
    return status.ok() ? copied() : std::move(status);
  }
  // How many pieces to copy while a matrix of `in_bytes` is converted, so that copies and matrices end together.
  std::int64_t copies_during(std::size_t in_bytes) {
    std::size_t waiting = 0;
    for (const Copy& copy : copies_) waiting += (copy.bytes.size() - copy.done + kCopyBytes - 1) / kCopyBytes;
    const double share = static_cast<double>(in_bytes) / static_cast<double>(std::max(matrix_bytes_, in_bytes));
    matrix_bytes_ -= std::min(matrix_bytes_, in_bytes);
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(waiting) * share));
  }

  // Converts 8- or 4-bit codes from one container's order to the other's.
  Status recode(std::size_t i) {
    const TensorPlan& plan = plan_.tensors[i];
    const ModelTensor& tensor = input(i);
    TERN_RETURN_IF_ERROR(check_bytes(model_.checkpoint(), tensor));
    TERN_ASSIGN(coded, CodedWeights::of(model_.checkpoint(), tensor));
    fetch_all(model_.checkpoint().data(tensor.index));
    const bool blocks = plan.scale_name.empty();
    const std::int64_t n = coded.k > 0 ? coded.n : 0;
    const std::int64_t rows = std::max<std::int64_t>(kCopyBytes / std::max<std::int64_t>(coded.k, 1), 1);
    std::vector<std::uint8_t> out;
    std::vector<float> scales;
    RunningChecksum after;
    for (std::int64_t first = 0; first < n; first += rows) {
      const std::int64_t count = std::min(rows, n - first);
      out.resize(coded_bytes(*plan.codes, blocks, static_cast<std::size_t>(count * coded.k)));
      scales.resize(blocks ? 0 : static_cast<std::size_t>(count * coded.scales_per_row()));
      TERN_RETURN_IF_ERROR(blocks ? coded.write_blocks(first, count, out.data())
                                  : coded.read_rows(first, count, out.data(), scales.data()));
      append_bytes(scales_[i].bytes, scales);
      after.add(out);
      TERN_RETURN_IF_ERROR(unrelated(write(out)));
    }
    after.add(scales_[i].bytes);
    report_.tensors[i].checksum = after.value();
    model_.checkpoint().release(tensor.index, 0, tensor.bytes);
    return {};
  }

  // Converts floats to 8 or 4 bits: blocks in GGUF, codes with separate scales in safetensors.
  Status cast_codes(std::size_t i) {
    const TensorPlan& plan = plan_.tensors[i];
    const ModelTensor& tensor = input(i);
    const DType from = *info(tensor.type).dtype;
    const bool blocks = plan.scale_name.empty();
    const std::span<const std::uint8_t> bytes = model_.checkpoint().data(tensor.index);
    std::vector<std::uint8_t> out;
    CodedLoss all;
    RunningChecksum before, after;
    for (std::size_t at = 0; at < bytes.size(); at += kCopyBytes) {
      const std::span<const std::uint8_t> some = bytes.subspan(at, std::min(kCopyBytes, bytes.size() - at));
      fetch(some);
      out.resize(coded_bytes(*plan.codes, blocks, some.size() / size_of(from)));
      const CodedLoss loss = blocks ? cast_to_blocks(threads_, some, from, *plan.codes, out)
                                    : cast_to_codes(threads_, some, from, *plan.codes, out, scales_[i].bytes);
      if (loss.bad_element >= 0) {
        const std::int64_t element = static_cast<std::int64_t>(at / size_of(from)) + loss.bad_element;
        return error_at(element, Code::non_finite, kWhere,
                        "'{}': the block of elements {} to {} has a value that is not finite, or a scale beyond f16",
                        escaped(tensor.name), element, element + kCodedGroup - 1);
      }
      all.signal += loss.signal;
      all.noise += loss.noise;
      if (tensor.checksum) before.add(some);
      after.add(out);
      TERN_RETURN_IF_ERROR(write(out));
      model_.checkpoint().release(tensor.index, at, some.size());
      TERN_RETURN_IF_ERROR(report_progress(i, some.size()));
    }
    after.add(scales_[i].bytes);
    if (all.signal > 0) report_.tensors[i].cast_sqnr_db = 10 * std::log10(all.signal / all.noise);
    report_.tensors[i].checksum = after.value();
    return check_bytes(tensor, before.value());
  }

  Status cast(std::size_t i) {
    if (plan_.tensors[i].codes) return cast_codes(i);
    const ModelTensor& tensor = input(i);
    const DType from = *info(tensor.type).dtype, to = *info(plan_.tensors[i].type).dtype;
    const std::span<const std::uint8_t> bytes = model_.checkpoint().data(tensor.index);
    struct Place {
      std::vector<std::uint8_t> out;
      CastLoss loss;
    };
    std::vector<Place> places(static_cast<std::size_t>(2 * threads_.count() + 2));
    CastLoss loss;
    RunningChecksum before, after;
    const Threads alone(1);
    const auto piece = [&](std::int64_t item) {
      const std::size_t at = static_cast<std::size_t>(item) * kCopyBytes;
      return bytes.subspan(at, std::min(kCopyBytes, bytes.size() - at));
    };
    Conveyor conveyor(threads_, static_cast<std::int64_t>(places.size()), &clock_);
    Status status = conveyor.run(
        static_cast<std::int64_t>((bytes.size() + kCopyBytes - 1) / kCopyBytes),
        [&](std::int64_t item, std::int64_t at) -> Status {
          Place& place = places[static_cast<std::size_t>(at)];
          fetch(piece(item));
          place.out.resize(piece(item).size() / size_of(from) * size_of(to));
          place.loss = cast_floats(alone, piece(item), from, place.out, to);
          return {};
        },
        [&](std::int64_t item, std::int64_t at) -> Status {
          const Place& place = places[static_cast<std::size_t>(at)];
          loss.add(place.loss);
          if (tensor.checksum) before.add(piece(item));
          after.add(place.out);
          TERN_RETURN_IF_ERROR(write(place.out));
          model_.checkpoint().release(tensor.index, static_cast<std::size_t>(item) * kCopyBytes, piece(item).size());
          return report_progress(i, piece(item).size());
        });
    if (!status.ok()) return status;
    report_.tensors[i].largest_change = loss.largest_change;
    report_.tensors[i].overflowed = loss.overflowed;
    report_.tensors[i].underflowed = loss.underflowed;
    report_.tensors[i].checksum = after.value();
    return check_bytes(tensor, before.value());
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
      for_each(first->pieces(), [&](std::int64_t piece) { first->upload(piece); });
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
    } else if (context_.device().id.kind == DeviceKind::cuda || how().granularity == Granularity::tensor()) {
      fetch_all(model_.checkpoint().data(input(i).index));  // the GPU, or the search for the scale, reads it all first
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
      if (!next.ok()) return unrelated(std::move(next).error());
      next_on_gpu_ = *next;
      job.parallel_tasks = next_on_gpu_ != nullptr ? next_on_gpu_->pieces() : 0;
      job.parallel_task = [this](std::int64_t piece) { next_on_gpu_->upload(piece); };
    }
    return convert(i, job);
  }

  Status convert(std::size_t i, MatrixJob job) {
    const TensorPlan& plan = plan_.tensors[i];
    const ModelTensor& tensor = input(i);
    job.write = [this](std::span<const std::uint8_t> bytes) { return unrelated(write(bytes)); };
    job.serial_task = [this] { return unrelated(copy_piece()); };
    job.serial_tasks = copies_during(plan.in_bytes);
    // A layout in runs (hf_packed) spreads each of them over all of its bytes, so it is fetched at once and released at
    // the end. Other layouts store rows in about their order, so rows are fetched as needed.
    const std::size_t bytes = model_.checkpoint().data(tensor.index).size();
    const bool at_end = tensor.ternary && row_of(tensor.layout->layout).runs > 1;
    if (at_end) fetch_all(model_.checkpoint().data(tensor.index));
    const bool read = at_end || (job.x != nullptr && (context_.device().id.kind == DeviceKind::cuda ||
                                                      how().granularity == Granularity::tensor()));
    const auto end_of = [&](std::int64_t rows) {
      return static_cast<std::size_t>(static_cast<double>(bytes) * static_cast<double>(rows) /
                                      static_cast<double>(tensor.n()));
    };
    if (!read)
      job.fetch = [&](RowRange rows) {
        const std::size_t begin = end_of(rows.first);
        fetch(model_.checkpoint().data(tensor.index).subspan(begin, end_of(rows.first + rows.count) - begin));
      };
    job.clock = &clock_;
    std::size_t released = 0;
    job.done = [&](RowRange rows) {
      if (rows.first == 0) released = 0;
      const std::size_t end = end_of(rows.first + rows.count);
      if (rows.first + rows.count < tensor.n() && (at_end || end - released < kReleaseBytes)) return;
      model_.checkpoint().release(tensor.index, released, end - released);
      released = end;
    };
    TERN_ASSIGN(made, convert_matrix(context_, pool_, job));
    if (plan_.histograms && job.x != nullptr)
      made.report.histogram = histogram_of(*job.x, made.decided, job.source.granularity());
    report_.tensors[i] = std::move(made.report);
    if (!plan.scale_name.empty()) scales_[i].bytes = bytes_of_scales(made.stored, plan.scale_type);
    return {};
  }

  // Writes what is known only at the end: separate scales, and the checksums.
  Status settle() {
    for (const Scales& scales : scales_)
      if (!scales.bytes.empty()) TERN_RETURN_IF_ERROR(fill(scales.writer_index, scales.bytes));
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
  std::size_t done_bytes_ = 0, total_bytes_ = 0, matrix_bytes_ = 0;
  std::vector<Scales> scales_;
  std::deque<Copy> copies_;
  BufferPool pool_;
  StageClock clock_;
  GpuFeed feed_;
  std::deque<std::size_t> gpu_queue_;       // matrices for the GPU, in their order
  GpuFeed::Matrix* next_on_gpu_ = nullptr;  // the matrix that is uploaded while the current one is converted
  Status unrelated_error_;
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
