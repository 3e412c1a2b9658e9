// compare_models(): compares trits with trits, floats with floats, and trits with floats by their values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <variant>

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

// What one thread has found. The lowest index wins, so that the result does not depend on the number of threads.
struct Finding {
  std::int64_t trits = 0, values = 0, first = -1;
  double largest = 0;
  bool incomparable = false;  // a NaN or an infinity on one side

  void value(std::int64_t index, double a, double b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return;
    ++values;
    if (first < 0 || index < first) first = index;
    const double apart = std::fabs(a - b);
    incomparable = incomparable || !std::isfinite(apart);
    if (std::isfinite(apart)) largest = std::max(largest, apart);
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

// Ternary weights as values.
struct Weights {
  QuantizedTensor tensor;
  Ranges ranges;
  [[nodiscard]] const std::uint8_t* row(std::int64_t r) const {
    return tensor.quantized_data().data() + r * row_bytes(Format::i2, tensor.k());
  }
  // n values of one row from an element on, equal to those of dequantizing to f32, and their trits.
  void values(std::int64_t first, std::int64_t n, std::int8_t* trits, double* out) const {
    const std::int64_t r = first / tensor.k(), column = first % tensor.k();
    read_codes(Format::i2, row(r), column, n, trits);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t range = ranges.per_row == 0 ? 0 : r * ranges.per_row + (column + i) / ranges.len;
      out[i] =
          static_cast<double>(trits[i]) * static_cast<double>(tensor.scale_values()[static_cast<std::size_t>(range)]);
    }
  }
};

// The values of a float tensor, or of 8- or 4-bit codes.
struct Floats {
  const std::uint8_t* data;
  DType dtype;
  std::optional<CodedWeights> coded = {};
  void values(std::int64_t first, std::int64_t n, std::int8_t*, double* out) const {
    if (coded) return coded->values(first, n, out);
    for (std::int64_t i = 0; i < n; ++i) out[i] = read_element(data, dtype, first + i);
  }
};

using Values = std::variant<Floats, Weights>;

Finding compare_values(const Threads& threads, const Values& a, const Values& b, std::int64_t elements) {
  const Weights *wa = std::get_if<Weights>(&a), *wb = std::get_if<Weights>(&b);
  const Floats *fa = std::get_if<Floats>(&a), *fb = std::get_if<Floats>(&b);
  const bool trits = wa != nullptr && wb != nullptr;
  const bool same_scales = trits && wa->tensor.granularity == wb->tensor.granularity &&
                           std::ranges::equal(wa->tensor.scale_values(), wb->tensor.scale_values());
  const bool same_type = fa != nullptr && fb != nullptr && !fa->coded && !fb->coded && fa->dtype == fb->dtype;
  const std::int64_t k = wa != nullptr ? wa->tensor.k() : wb != nullptr ? wb->tensor.k() : 0;
  const std::int64_t run = k > 0 ? k : 64 * kComparedBlock;  // a row, if there are trits
  const auto equal_bytes = [&](std::int64_t begin, std::int64_t n) {
    if (same_scales) return std::memcmp(wa->row(begin / k), wb->row(begin / k), row_bytes(Format::i2, k)) == 0;
    const std::size_t size = same_type ? size_of(fa->dtype) : 0;
    return same_type && std::memcmp(fa->data + begin * size, fb->data + begin * size, n * size) == 0;
  };
  const auto work = [&](std::int64_t begin, std::int64_t end, Finding& found) {
    std::int8_t ta[kComparedBlock], tb[kComparedBlock];
    double va[kComparedBlock], vb[kComparedBlock];
    for (; begin < end; begin += run) {
      const std::int64_t last = std::min(begin + run, end);
      for (std::int64_t at = equal_bytes(begin, last - begin) ? last : begin; at < last; at += kComparedBlock) {
        const std::int64_t some = std::min(kComparedBlock, last - at);
        std::visit([&](const auto& values) { values.values(at, some, ta, va); }, a);
        std::visit([&](const auto& values) { values.values(at, some, tb, vb); }, b);
        for (std::int64_t i = 0; i < some; ++i) {
          if (trits && ta[i] != tb[i]) ++found.trits;
          found.value(at + i, va[i], vb[i]);
        }
      }
    }
  };
  return by_pieces(threads, elements, k > 0 ? kRowsPerPiece * k : run, work);
}

bool has_values(const ModelTensor& tensor) {
  const auto dtype = info(tensor.type).dtype;
  return !std::holds_alternative<PlainTensor>(tensor.content()) || dtype == DType::f32 || dtype == DType::f64 ||
         dtype == DType::f16 || dtype == DType::bf16;
}

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
  Comparison(const Context& context, const Model& a, const Model& b) : context_(context), a_(a), b_(b) {}

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
    for (const auto& [model, tensor] : {std::pair(&a_, &a), std::pair(&b_, &b)}) {
      const std::size_t bytes = model->checkpoint().data(tensor->index).size();
      for (std::size_t at = 0; at < bytes; at += kReleaseBytes)
        model->checkpoint().release(tensor->index, at, std::min(kReleaseBytes, bytes - at));
    }
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

  [[nodiscard]] Result<Values> values(const Model& model, std::size_t index) const {
    const ModelTensor& tensor = model.tensors()[index];
    if (tensor.ternary) {
      TERN_ASSIGN(q, of_file(model, model.read(context_, index)));
      const Ranges ranges = make_ranges(q.rows(), q.k(), q.granularity);
      return Values(Weights{std::move(q), ranges});
    }
    if (!tensor.codes) return Values(Floats{model.checkpoint().data(tensor.index).data(), *info(tensor.type).dtype});
    TERN_ASSIGN(coded, of_file(model, CodedWeights::of(model.checkpoint(), tensor)));
    return Values(Floats{nullptr, DType::f32, coded});
  }

  Result<Finding> compare(std::size_t ia, std::size_t ib, TensorDifference& out) const {
    const ModelTensor &a = a_.tensors()[ia], &b = b_.tensors()[ib];
    TERN_RETURN_IF_ERROR(of_file(a_, check_bytes(a_.checkpoint(), a)));
    TERN_RETURN_IF_ERROR(of_file(b_, check_bytes(b_.checkpoint(), b)));
    if (has_values(a) && has_values(b)) {
      TERN_ASSIGN(va, values(a_, ia));
      TERN_ASSIGN(vb, values(b_, ib));
      out.what = a.ternary && b.ternary ? "equal trits and scales"
                 : a.ternary            ? "equal values, trits here"
                 : b.ternary            ? "equal values, trits there"
                 : a.type == b.type     ? "equal values"
                                        : fmt::format("equal values, {} and {}", name(a.type), name(b.type));
      return compare_values(context_.state().threads, va, vb, out.elements);
    }
    const auto bytes_a = a_.checkpoint().data(a.index), bytes_b = b_.checkpoint().data(b.index);
    const bool equal = a.type == b.type && std::ranges::equal(bytes_a, bytes_b);
    out.kind = equal ? Kind::equal : Kind::differs;
    out.what = equal              ? "equal bytes"
               : a.type == b.type ? fmt::format("bytes of {} differ", name(a.type))
                                  : fmt::format("{} here, {} there", name(a.type), name(b.type));
    return Finding{};
  }

  const Context& context_;
  const Model &a_, &b_;
};

// The name by which a tensor is looked up in the other model: Hugging Face's if it is unique, otherwise the name in the
// file, which is always unique. So no tensor is skipped.
class Keys {
 public:
  Keys(const Model& a, const Model& b) {
    for (const Model* model : {&a, &b}) {
      std::unordered_set<std::string_view> seen;
      for (const ModelTensor& tensor : model->tensors())
        if (!seen.insert(tensor.hf_name).second) shared_.insert(tensor.hf_name);
    }
  }
  [[nodiscard]] std::string_view of(const ModelTensor& tensor) const {
    return shared_.contains(tensor.hf_name) ? tensor.name : tensor.hf_name;
  }
  [[nodiscard]] std::unordered_map<std::string_view, std::size_t> all(const Model& model) const {
    std::unordered_map<std::string_view, std::size_t> map;
    for (std::size_t i = 0; i < model.tensors().size(); ++i) map.emplace(of(model.tensors()[i]), i);
    return map;
  }

 private:
  std::unordered_set<std::string_view> shared_;  // by several tensors of one model, such as a norm in both spellings
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
