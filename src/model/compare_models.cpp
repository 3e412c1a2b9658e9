// compare_models(): compares trits with trits, floats with floats, and trits with floats by their values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/elements.h"
#include "base/errors.h"
#include "base/words.h"
#include "format/format.h"
#include "format/ranges.h"
#include "io/file_error.h"
#include "model/coded_weights.h"
#include "model/read_weights.h"
#include "plan/context_state.h"
#include "tern/model.h"

namespace tern {
namespace {

using Kind = TensorDifference::Kind;
constexpr WordTable<Kind, 4> kKinds = {{{Kind::equal, "equal"},
                                        {Kind::differs, "differs"},
                                        {Kind::only_in_a, "only_in_a"},
                                        {Kind::only_in_b, "only_in_b"}}};
constexpr std::string_view kWhere = "compare_models";
constexpr std::int64_t kComparedBlock = 1024;                 // values compared at a time
constexpr std::int64_t kRowsPerPiece = 16;                    // for ternary matrices
constexpr std::size_t kReleaseBytes = std::size_t{64} << 20;  // pages are released in pieces of this size

// The differences that one thread has found. The lowest index wins, so that the result does not depend on the number of
// threads.
struct Finding {
  std::int64_t trits = 0, values = 0, first = -1;
  double largest = 0;
  bool incomparable = false;  // a NaN or an infinity on one side

  void value(std::int64_t index, double a, double b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return;
    ++values;
    if (first < 0 || index < first) first = index;
    const double apart = std::fabs(a - b);
    if (std::isfinite(apart)) {
      largest = std::max(largest, apart);
    } else {
      incomparable = true;
    }
  }
  void add(const Finding& other) {
    trits += other.trits;
    values += other.values;
    if (other.first >= 0 && (first < 0 || other.first < first)) first = other.first;
    largest = std::max(largest, other.largest);
    incomparable = incomparable || other.incomparable;
  }
};

template <class Work>
Finding by_pieces(const Threads& threads, std::int64_t items, std::int64_t grain, Work work) {
  Finding all;
  std::mutex mutex;
  WorkQueue queue(items, grain);
  threads.run(threads.count(), [&](int) {
    Finding found;
    for (std::int64_t begin = 0, end = 0; queue.next(begin, end);) work(begin, end, found);
    const std::lock_guard lock(mutex);
    all.add(found);
  });
  return all;
}

// Reads rows of trits as values.
struct Weights {
  QuantizedTensor tensor;
  Ranges ranges;
  explicit Weights(QuantizedTensor q)
      : tensor(std::move(q)), ranges(make_ranges(tensor.rows(), tensor.k(), tensor.granularity)) {}

  [[nodiscard]] const std::uint8_t* row(std::int64_t r) const {
    return tensor.quantized_data().data() + r * row_bytes(Format::i2, tensor.k());
  }
  [[nodiscard]] float scale(std::int64_t r, std::int64_t column) const {
    const std::int64_t range = ranges.per_row == 0 ? 0 : r * ranges.per_row + column / ranges.len;
    return tensor.scale_values()[static_cast<std::size_t>(range)];
  }
  // n values from a column on, equal to those of dequantizing to f32.
  void values(std::int64_t r, std::int64_t column, std::int64_t n, std::int8_t* trits, double* out) const {
    read_codes(Format::i2, row(r), column, n, trits);
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = static_cast<double>(trits[i]) * static_cast<double>(scale(r, column + i));
  }
};

Finding compare_trits(const Threads& threads, const Weights& a, const Weights& b) {
  const std::int64_t n = a.tensor.rows(), k = a.tensor.k(), line = row_bytes(Format::i2, k);
  const std::span<const float> sa = a.tensor.scale_values(), sb = b.tensor.scale_values();
  const bool same_scales = a.tensor.granularity == b.tensor.granularity && std::ranges::equal(sa, sb);
  return by_pieces(threads, n, kRowsPerPiece, [&](std::int64_t begin, std::int64_t end, Finding& found) {
    std::int8_t ta[kComparedBlock], tb[kComparedBlock];
    double va[kComparedBlock], vb[kComparedBlock];
    for (std::int64_t r = begin; r < end; ++r) {
      if (same_scales && std::memcmp(a.row(r), b.row(r), static_cast<std::size_t>(line)) == 0) continue;
      for (std::int64_t c = 0; c < k; c += kComparedBlock) {
        const std::int64_t some = std::min(kComparedBlock, k - c);
        a.values(r, c, some, ta, va);
        b.values(r, c, some, tb, vb);
        for (std::int64_t i = 0; i < some; ++i) {
          found.trits += ta[i] != tb[i] ? 1 : 0;
          found.value(r * k + c + i, va[i], vb[i]);
        }
      }
    }
  });
}

// Reads the values of a float tensor, or of 8- or 4-bit codes, from an element on.
struct Floats {
  const std::uint8_t* data;
  DType dtype;
  std::optional<CodedWeights> coded = {};
  void values(std::int64_t first, std::int64_t n, double* out) const {
    if (coded) return coded->values(first, n, out);
    for (std::int64_t i = 0; i < n; ++i) out[i] = read_element(data, dtype, first + i);
  }
};

Finding compare_with_floats(const Threads& threads, const Weights& a, const Floats& b) {
  const std::int64_t k = a.tensor.k();
  return by_pieces(threads, a.tensor.rows(), kRowsPerPiece, [&](std::int64_t begin, std::int64_t end, Finding& found) {
    std::int8_t trits[kComparedBlock];
    double va[kComparedBlock], vb[kComparedBlock];
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t c = 0; c < k; c += kComparedBlock) {
        const std::int64_t some = std::min(kComparedBlock, k - c);
        a.values(r, c, some, trits, va);
        b.values(r * k + c, some, vb);
        for (std::int64_t i = 0; i < some; ++i) found.value(r * k + c + i, va[i], vb[i]);
      }
  });
}

Finding compare_floats(const Threads& threads, const Floats& a, const Floats& b, std::int64_t elements) {
  return by_pieces(threads, elements, 64 * kComparedBlock, [&](std::int64_t begin, std::int64_t end, Finding& found) {
    const auto size = static_cast<std::int64_t>(size_of(a.dtype));
    if (!a.coded && !b.coded && a.dtype == b.dtype &&
        std::memcmp(a.data + begin * size, b.data + begin * size, static_cast<std::size_t>((end - begin) * size)) == 0)
      return;
    double va[kComparedBlock], vb[kComparedBlock];
    for (std::int64_t at = begin; at < end; at += kComparedBlock) {
      const std::int64_t some = std::min(kComparedBlock, end - at);
      a.values(at, some, va);
      b.values(at, some, vb);
      for (std::int64_t i = 0; i < some; ++i) found.value(at + i, va[i], vb[i]);
    }
  });
}

bool is_float(const ModelTensor& tensor) {
  const auto dtype = info(tensor.type).dtype;
  return !tensor.ternary && (dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16);
}

bool has_values(const ModelTensor& tensor) { return is_float(tensor) || tensor.codes; }

std::vector<std::int64_t> without_leading_ones(std::vector<std::int64_t> shape) {
  while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

// The axes as the model has them; in `shape`, ternary experts of GGUF are folded into one tall matrix.
const std::vector<std::int64_t>& axes(const ModelTensor& tensor) {
  return tensor.ternary && tensor.type != StoredType::u8 ? tensor.stored_shape : tensor.shape;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

class Comparison {
 public:
  Comparison(const Context& context, const Model& a, const Model& b)
      : context_(context), threads_(context.state().threads), a_(a), b_(b) {}

  Result<TensorDifference> tensors(std::size_t ia, std::size_t ib) const {
    const ModelTensor &a = a_.tensors()[ia], &b = b_.tensors()[ib];
    TensorDifference out{.name = a.hf_name};
    if (without_leading_ones(axes(a)) != without_leading_ones(axes(b))) {
      out.kind = Kind::differs;
      out.what = fmt::format("{} here, {} there", shape_text(axes(a)), shape_text(axes(b)));
      return out;
    }
    out.elements = 1;
    // The product can overflow only if an axis is 0.
    for (const std::int64_t size : a.shape) out.elements = checked_mul(out.elements, size).value_or(0);
    TERN_ASSIGN(found, compare(ia, ib, out));
    release(a_, a);
    release(b_, b);
    if (out.kind == Kind::differs || found.values == 0) return out;
    out.kind = Kind::differs;
    out.differing_trits = found.trits;
    out.largest_difference = found.incomparable ? HUGE_VAL : found.largest;
    out.first_index = found.first;
    const std::int64_t k = a.shape.empty() ? 1 : a.shape.back();
    out.what = found.trits > 0 ? fmt::format("{} of {} trits differ", found.trits, out.elements)
                               : fmt::format("{} of {} values differ", found.values, out.elements);
    out.what += fmt::format(", the first at [{}, {}], by at most {:.6g}", found.first / k, found.first % k,
                            out.largest_difference);
    return out;
  }

 private:
  // Adds the model's file name if the answer is an error.
  template <class Answer>
  static Answer of_file(const Model& model, Answer answer) {
    if (answer.ok()) return answer;
    return in_file(std::move(answer).error(), kWhere, model.checkpoint().path());
  }

  Result<Finding> compare(std::size_t ia, std::size_t ib, TensorDifference& out) const {
    const ModelTensor &a = a_.tensors()[ia], &b = b_.tensors()[ib];
    TERN_RETURN_IF_ERROR(of_file(a_, check_bytes(a_.checkpoint(), a)));
    TERN_RETURN_IF_ERROR(of_file(b_, check_bytes(b_.checkpoint(), b)));
    const auto floats = [](const Model& model, const ModelTensor& tensor) -> Result<Floats> {
      if (!tensor.codes) return Floats{model.checkpoint().data(tensor.index).data(), *info(tensor.type).dtype};
      TERN_ASSIGN(coded, of_file(model, CodedWeights::of(model.checkpoint(), tensor)));
      return Floats{nullptr, DType::f32, coded};
    };
    if (a.ternary && b.ternary) {
      TERN_ASSIGN(qa, of_file(a_, a_.read(context_, ia)));
      TERN_ASSIGN(qb, of_file(b_, b_.read(context_, ib)));
      out.what = "equal trits and scales";
      return compare_trits(threads_, Weights(std::move(qa)), Weights(std::move(qb)));
    }
    if (a.ternary && has_values(b)) {
      TERN_ASSIGN(q, of_file(a_, a_.read(context_, ia)));
      TERN_ASSIGN(fb, floats(b_, b));
      out.what = "equal values, trits here";
      return compare_with_floats(threads_, Weights(std::move(q)), fb);
    }
    if (b.ternary && has_values(a)) {
      TERN_ASSIGN(q, of_file(b_, b_.read(context_, ib)));
      TERN_ASSIGN(fa, floats(a_, a));
      out.what = "equal values, trits there";
      return compare_with_floats(threads_, Weights(std::move(q)), fa);
    }
    if (has_values(a) && has_values(b)) {
      TERN_ASSIGN(fa, floats(a_, a));
      TERN_ASSIGN(fb, floats(b_, b));
      out.what = a.type == b.type ? "equal values" : fmt::format("equal values, {} and {}", name(a.type), name(b.type));
      return compare_floats(threads_, fa, fb, out.elements);
    }
    const auto bytes_a = a_.checkpoint().data(a.index), bytes_b = b_.checkpoint().data(b.index);
    out.what = "equal bytes";
    if (a.type == b.type && std::ranges::equal(bytes_a, bytes_b)) return Finding{};
    out.kind = Kind::differs;
    out.what = a.type == b.type ? fmt::format("bytes of {} differ", name(a.type))
                                : fmt::format("{} here, {} there", name(a.type), name(b.type));
    return Finding{};
  }

  static void release(const Model& model, const ModelTensor& tensor) {
    const std::size_t bytes = model.checkpoint().data(tensor.index).size();
    for (std::size_t at = 0; at < bytes; at += kReleaseBytes)
      model.checkpoint().release(tensor.index, at, std::min(kReleaseBytes, bytes - at));
  }

  const Context& context_;
  const Threads& threads_;
  const Model &a_, &b_;
};

// Hugging Face names that several tensors of one model share, such as a norm in both spellings.
std::unordered_set<std::string_view> shared_names(const Model& a, const Model& b) {
  std::unordered_set<std::string_view> shared;
  for (const Model* model : {&a, &b}) {
    std::unordered_set<std::string_view> seen;
    for (const ModelTensor& tensor : model->tensors())
      if (!seen.insert(tensor.hf_name).second) shared.insert(tensor.hf_name);
  }
  return shared;
}

// The name by which a tensor is looked up in the other model: Hugging Face's if it is unique, otherwise the name in the
// file, which is always unique. So no tensor is skipped.
class Keys {
 public:
  Keys(const Model& a, const Model& b) : shared_(shared_names(a, b)) {}
  [[nodiscard]] std::string_view of(const ModelTensor& tensor) const {
    return shared_.contains(tensor.hf_name) ? tensor.name : tensor.hf_name;
  }
  [[nodiscard]] std::unordered_map<std::string_view, std::size_t> all(const Model& model) const {
    std::unordered_map<std::string_view, std::size_t> map;
    for (std::size_t i = 0; i < model.tensors().size(); ++i) map.emplace(of(model.tensors()[i]), i);
    return map;
  }

 private:
  std::unordered_set<std::string_view> shared_;
};

}  // namespace

std::string_view name(TensorDifference::Kind kind) { return word_of(kKinds, kind); }

bool ModelDifference::equal() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.kind == Kind::equal; });
}

Result<ModelDifference> compare_models(const Context& context, const Model& a, const Model& b,
                                       const ModelProgress& progress) {
  const Comparison comparison(context, a, b);
  const Keys keys(a, b);
  const auto in_a = keys.all(a), in_b = keys.all(b);
  ModelDifference out;
  std::size_t done = 0, total = 0;
  for (const ModelTensor& tensor : a.tensors()) total += tensor.bytes;
  for (std::size_t i = 0; i < a.tensors().size(); ++i) {
    const ModelTensor& tensor = a.tensors()[i];
    const auto other = in_b.find(keys.of(tensor));
    if (other == in_b.end()) {
      out.tensors.push_back(
          {.name = std::string(keys.of(tensor)), .kind = Kind::only_in_a, .what = "only in the first"});
    } else {
      TERN_ASSIGN(difference, comparison.tensors(i, other->second));
      difference.name = keys.of(tensor);
      out.tensors.push_back(std::move(difference));
    }
    done += tensor.bytes;
    if (progress && !progress(tensor.hf_name, done, total))
      return error(Code::invalid_argument, kWhere, "stopped by the caller");
  }
  for (const ModelTensor& tensor : b.tensors())
    if (!in_a.contains(keys.of(tensor)))
      out.tensors.push_back(
          {.name = std::string(keys.of(tensor)), .kind = Kind::only_in_b, .what = "only in the second"});
  return out;
}

}  // namespace tern
