// Checks a linear problem and its arguments, once, for all kernels.
#include "ops/linear/linear.h"

#include <algorithm>

#include "base/errors.h"
#include "base/views.h"
#include "format/format.h"
#include "format/ranges.h"
#include "ops/linear/cuda_serves.h"

namespace tern {

using linear::Params;
using Op = OpTraits<Linear>;

namespace {

// The names of each matrix's arguments, made at compile time: a run that succeeds formats nothing.
enum Argument : std::size_t { kWeights, kY, kBias, kResidual };
constexpr std::string_view kArguments[][Linear::kMaxMatrices + 1] = {
    {"weights", "weights[0]", "weights[1]", "weights[2]", "weights[3]", "weights[4]", "weights[5]", "weights[6]",
     "weights[7]"},
    {"y", "y[0]", "y[1]", "y[2]", "y[3]", "y[4]", "y[5]", "y[6]", "y[7]"},
    {"bias", "bias[0]", "bias[1]", "bias[2]", "bias[3]", "bias[4]", "bias[5]", "bias[6]", "bias[7]"},
    {"residual", "residual[0]", "residual[1]", "residual[2]", "residual[3]", "residual[4]", "residual[5]",
     "residual[6]", "residual[7]"}};
std::string_view argument(const Linear::Problem& p, Argument what, std::size_t i) {
  return kArguments[what][p.matrices.size() == 1 ? 0 : i + 1];
}

// "bias+squared_relu+residual" or "none"; a list with commas for several matrices.
std::string epilogue_words(const Linear::Problem& p) {
  std::string all;
  for (const Linear::Matrix& m : p.matrices) {
    std::string words;
    const auto add = [&words](std::string_view word) { words += fmt::format("{}{}", words.empty() ? "" : "+", word); };
    if (m.bias) add("bias");
    if (m.activation != Activation::none) add(name(m.activation));
    if (m.residual) add("residual");
    all += fmt::format("{}{}", all.empty() ? "" : ",", words.empty() ? "none" : words);
  }
  return all;
}

// The most tokens, and the most rows of all matrices together: kernels count them, up to a block beyond the last, in 32
// bits.
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 30;

// Why no kernel can solve the problem, or an empty string.
std::string refused(const Linear::Problem& p) {
  if (p.k > linear::kMaxK) return fmt::format("k is {}, above {}: an int32 sum might not fit", p.k, linear::kMaxK);
  if (p.math == LinearMath::w2_float && !is_trits(p.format))
    return fmt::format("{} weights meet int8 activations; w2_float is for i2 and b3", name(p.format));
  if (p.m_max > kMaxExtent)
    return fmt::format("m_max is {}, above {}; give the tokens to several runs", p.m_max, kMaxExtent);
  std::int64_t rows = 0;
  for (const Linear::Matrix& m : p.matrices) {  // each at most what memory has bytes for, so the sum does not overflow
    rows += m.n;
    if (rows > kMaxExtent) return fmt::format("the matrices have {} rows, above {}; split them", rows, kMaxExtent);
  }
  const std::int64_t most = linear::max_summed(p.format);
  for (const Linear::Matrix& m : p.matrices) {
    const bool grouped = m.granularity.kind == Granularity::Kind::group;
    const std::int64_t summed = grouped ? std::min(m.granularity.group_size, p.k) : p.k;
    if (summed > most)
      return fmt::format("{} {} weights share a scale, above {}: an int32 sum might not fit; take shorter groups",
                         summed, name(p.format), most);
    if (m.y_dtype != DType::i32) continue;
    if (p.math != LinearMath::w2a8 || m.granularity.kind == Granularity::Kind::group)
      return "i32 is the bare sum of w2a8 without group scales; ask for f32";
    if (m.bias || m.residual || m.activation != Activation::none)
      return fmt::format("i32 is the bare sum; it goes with no epilogue, and {} was asked for", epilogue_words(p));
  }
  return {};
}

Status check_matrix(const Linear::Problem& p, std::size_t i) {
  const Linear::Matrix& m = p.matrices[i];
  TERN_RETURN_IF_ERROR(check_extent(Op::kName, m.n, p.k, DType::f32, m.granularity));
  TERN_RETURN_IF_ERROR(check_extent(Op::kName, p.m_max, m.n, DType::f32, Granularity::row()));
  const DType t = m.y_dtype;
  if (t != DType::f32 && t != DType::f16 && t != DType::bf16 && t != DType::i32)
    return error(Code::invalid_argument, Op::kName, "{} cannot be {}; it is f32, f16, bf16 or i32", argument(p, kY, i),
                 name(t));
  if (m.activation == Activation::relu)
    return error(Code::unsupported, Op::kName, "linear takes none or squared_relu as its activation; relu is conv2d's");
  TERN_RETURN_IF_ERROR(packed_weights_bytes(m.n, p.k, m.granularity, p.format));
  return {};
}

Result<linear::Matrix> bind_matrix(const Where& where, const Linear::Problem& p, const Linear::Args& args,
                                   std::size_t i, std::int64_t m) {
  const Linear::Matrix& spec = p.matrices[i];
  const Linear::Output& out = args.outputs[i];
  const std::string_view y_name = argument(p, kY, i), w_name = argument(p, kWeights, i);
  const PackedWeights::State* w = out.weights.state();
  if (w == nullptr)
    return error(Code::invalid_argument, Op::kName, "{} are empty; PackedWeights::pack makes them", w_name);
  if (w->device != where.device)
    return error(Code::invalid_argument, Op::kName, "{} were packed for {}, this plan runs on {}", w_name,
                 name(w->device), name(where.device));
  if (w->n != spec.n || w->k != p.k)
    return error(Code::invalid_argument, Op::kName, "{} are {} x {}, the problem says {} x {}", w_name, w->n, w->k,
                 spec.n, p.k);
  if (w->format != p.format)
    return error(Code::invalid_argument, Op::kName, "{} are {}, the problem says {}", w_name, name(w->format),
                 name(p.format));
  if (w->granularity != spec.granularity)
    return error(Code::invalid_argument, Op::kName, "{} have scales by {}, the problem says {}", w_name,
                 name(w->granularity), name(spec.granularity));
  linear::Matrix matrix{.spec = spec, .weights = w};
  TERN_ASSIGN(y, as_rows(where, y_name, out.y, spec.y_dtype, m, spec.n));
  matrix.y = static_cast<std::byte*>(out.y.data);
  matrix.y_stride = y.stride;
  if (spec.bias) {
    TERN_RETURN_IF_ERROR(check_dense(where, argument(p, kBias, i), out.bias, DType::f32, spec.n));
    TERN_RETURN_IF_ERROR(check_apart(Op::kName, argument(p, kBias, i), bytes_of(out.bias), y_name, bytes_of(out.y)));
    matrix.bias = static_cast<const float*>(out.bias.data);
  }
  if (spec.residual) {
    const std::string_view r_name = argument(p, kResidual, i);
    TERN_ASSIGN(residual, as_rows(where, r_name, out.residual, spec.y_dtype, m, spec.n));
    matrix.residual = static_cast<const std::byte*>(out.residual.data);
    matrix.residual_stride = residual.stride;
    const bool in_place = matrix.residual == matrix.y && (residual.stride == y.stride || m == 1);
    if (!in_place)
      TERN_RETURN_IF_ERROR(check_apart(Op::kName, r_name, bytes_of(out.residual), y_name, bytes_of(out.y)));
  }
  TERN_RETURN_IF_ERROR(check_apart(Op::kName, "x", bytes_of(args.x), y_name, bytes_of(out.y)));
  return matrix;
}

// Checks that no output overlaps what another matrix reads or writes, x_scales, or any weights.
Status check_outputs_apart(const Linear::Problem& p, const Linear::Args& args) {
  for (std::size_t i = 0; i < p.matrices.size(); ++i) {
    const ByteSpan y = bytes_of(args.outputs[i].y);
    const std::string_view y_name = argument(p, kY, i);
    for (std::size_t j = 0; j < p.matrices.size(); ++j) {
      const Linear::Output& other = args.outputs[j];
      const auto* w = other.weights.state();
      const auto codes = reinterpret_cast<std::uintptr_t>(w->codes);
      TERN_RETURN_IF_ERROR(check_apart(Op::kName, argument(p, kWeights, j), {codes, codes + w->bytes}, y_name, y));
      if (i == j) continue;
      if (i < j) TERN_RETURN_IF_ERROR(check_apart(Op::kName, y_name, y, argument(p, kY, j), bytes_of(other.y)));
      if (p.matrices[j].bias)
        TERN_RETURN_IF_ERROR(check_apart(Op::kName, argument(p, kBias, j), bytes_of(other.bias), y_name, y));
      if (p.matrices[j].residual)
        TERN_RETURN_IF_ERROR(check_apart(Op::kName, argument(p, kResidual, j), bytes_of(other.residual), y_name, y));
    }
    if (args.x_scales.data != nullptr)
      TERN_RETURN_IF_ERROR(check_apart(Op::kName, "x_scales", bytes_of(args.x_scales), y_name, y));
  }
  return {};
}

}  // namespace

Result<ProblemFacts> Op::facts(const Linear::Problem& p) {
  if (p.matrices.empty() || p.matrices.size() > Linear::kMaxMatrices)
    return error(Code::invalid_argument, kName, "{} matrices; a problem has 1 to {}", p.matrices.size(),
                 Linear::kMaxMatrices);
  if (p.x_dtype == DType::i8 && p.math == LinearMath::w2_float)
    return error(Code::invalid_argument, kName, "x is i8, which {} does not take; it is for f32, f16 and bf16",
                 name(p.math));
  if (!is_weights(p.format))
    return error(Code::unsupported, kName, "linear takes weights in i2, b3, s8 and s4, not in {}", name(p.format));
  TERN_RETURN_IF_ERROR(check_extent(kName, p.m_max, p.k, DType::f32, Granularity::row()));
  bool all_exact = true;
  for (std::size_t i = 0; i < p.matrices.size(); ++i) {
    TERN_RETURN_IF_ERROR(check_matrix(p, i));
    all_exact = all_exact && linear::exact(p.math, p.matrices[i].granularity);
  }
  ProblemFacts facts{.op = kName, .dtype = p.x_dtype, .format = p.format, .m = p.m_max, .k = p.k};
  facts.refused = refused(p);
  linear::add_plain_parts(p, facts);
  facts.epilogue = epilogue_words(p);
  if (all_exact) {
    facts.guarantee = Guarantee{.math = "int8", .accumulator = "int32"};
  } else {
    facts.guarantee_on_gpu = Guarantee{.math = "f32", .accumulator = {}, .bit_stable = false};      // the kernel's own
    facts.guarantee = p.math == LinearMath::w2a8 ? Guarantee{.math = "int8", .accumulator = "f32"}  // group scales
                                                 : facts.guarantee_on_gpu;
  }
  return facts;
}

Result<Params> Op::bind(const Linear::Problem& p, const Linear::Args& args, DeviceId device) {
  const Where where(kName, device);
  Params params{.k = p.k, .x_dtype = p.x_dtype, .format = p.format, .math = p.math, .non_finite = p.non_finite};
  if (args.outputs.size() != p.matrices.size())
    return error(Code::invalid_argument, kName, "{} outputs for {} matrices; give one for each", args.outputs.size(),
                 p.matrices.size());
  TERN_ASSIGN(elements, element_count(args.x.shape));
  const std::int64_t last = args.x.shape.rank() == 0 ? 0 : args.x.shape[args.x.shape.rank() - 1];
  if (args.x.shape.rank() < 2 || last != p.k)
    return error(Code::invalid_argument, kName, "x is {}, the problem needs [m, {}]", name(args.x.shape), p.k);
  params.m = p.k > 0 ? elements / p.k : args.x.shape[0];
  if (params.m > p.m_max)
    return error(Code::invalid_argument, kName, "x has {} tokens, the plan was made for up to {}: m_max of its problem",
                 params.m, p.m_max);
  TERN_ASSIGN(x, as_rows(where, "x", args.x, p.x_dtype, params.m, p.k));
  params.x = args.x.data;
  params.x_stride = x.stride;
  bool scaled = false;
  for (const Linear::Matrix& m : p.matrices) scaled = scaled || m.y_dtype != DType::i32;
  if (p.x_dtype == DType::i8 && (scaled || args.x_scales.data != nullptr)) {
    TERN_RETURN_IF_ERROR(check_dense(where, "x_scales", args.x_scales, DType::f32, params.m));
    params.x_scales = static_cast<const float*>(args.x_scales.data);
    TERN_RETURN_IF_ERROR(check_scales(where, "x_scales", params.x_scales, params.m));
  }
  params.count = p.matrices.size();
  for (std::size_t i = 0; i < params.count; ++i) {
    TERN_ASSIGN(matrix, bind_matrix(where, p, args, i, params.m));
    params.matrices[i] = matrix;
  }
  TERN_RETURN_IF_ERROR(check_outputs_apart(p, args));
  return params;
}

bool Op::empty(const Params& params) {
  if (params.m == 0) return true;
  for (std::size_t i = 0; i < params.count; ++i)
    if (params.matrices[i].spec.n > 0) return false;
  return true;
}

std::int64_t Op::operations(const Params& params) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < params.count; ++i) sum += 2 * params.m * params.matrices[i].spec.n * params.k;
  return sum;
}

Linear::Problem Op::problem(const ProblemWords& words) {
  Linear::Problem p{.m_max = words.m.value_or(1),
                    .k = words.k,
                    .x_dtype = words.dtype.value_or(words.math == LinearMath::w2a8 ? DType::i8 : DType::f32),
                    .math = words.math,
                    .format = words.format.value_or(Format::i2)};
  p.matrices = {{.n = words.rows, .granularity = words.granularity, .y_dtype = words.y_dtype}};
  return p;
}

std::string Op::text(const ProblemWords& words) {
  const Linear::Problem p = problem(words);
  return fmt::format("linear of {} {} {} with {} x {} weights in {}, scales by {}, {}", p.m_max,
                     p.m_max == 1 ? "token" : "tokens", name(p.x_dtype), words.rows, p.k, name(p.format),
                     name(words.granularity), name(p.math));
}

}  // namespace tern
