// Enumerators to words and back.
#include "tern/types.h"

#include "base/errors.h"
#include "base/words.h"

namespace tern {
namespace {

constexpr WordTable<DType, 7> kDTypes = {{{DType::f32, "f32"},
                                          {DType::f64, "f64"},
                                          {DType::f16, "f16"},
                                          {DType::bf16, "bf16"},
                                          {DType::i8, "i8"},
                                          {DType::u8, "u8"},
                                          {DType::i32, "i32"}}};
constexpr WordTable<Scheme, 4> kSchemes = {
    {{Scheme::absmean, "absmean"}, {Scheme::absmax, "absmax"}, {Scheme::mse, "mse"}, {Scheme::int2, "int2"}}};
constexpr WordTable<NonFinite, 2> kPolicies = {{{NonFinite::reject, "reject"}, {NonFinite::saturate, "saturate"}}};

}  // namespace

std::string_view name(DType v) { return word_of(kDTypes, v); }
std::string_view name(Scheme v) { return word_of(kSchemes, v); }
std::string_view name(NonFinite v) { return word_of(kPolicies, v); }

std::string name(const Granularity& g) {
  switch (g.kind) {
    case Granularity::Kind::tensor: return "tensor";
    case Granularity::Kind::row: return "row";
    case Granularity::Kind::group: return fmt::format("group:{}", g.group_size);
  }
  return "unknown";
}

std::string name(DeviceId id) {
  return id.kind == DeviceKind::cpu ? std::string("cpu") : fmt::format("cuda:{}", id.index);
}

Result<DType> parse_dtype(std::string_view text) { return parse_word(kDTypes, "dtype", text); }
Result<Scheme> parse_scheme(std::string_view text) { return parse_word(kSchemes, "scheme", text); }
Result<NonFinite> parse_non_finite(std::string_view text) { return parse_word(kPolicies, "non-finite policy", text); }

Result<Granularity> parse_granularity(std::string_view text) {
  if (text == "tensor") return Granularity::tensor();
  if (text == "row") return Granularity::row();
  if (text == "group")
    return error(Code::invalid_argument, "granularity",
                 "'group' does not say how many share a scale; give group:128, say");
  if (text.substr(0, 6) == "group:") {
    const std::string_view digits = text.substr(6);
    const auto size = whole_number(digits);
    if (size && *size > 0) return Granularity::group(*size);
    const bool too_large = !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos && !size;
    return error(Code::invalid_argument, "granularity", "group size '{}' is {}, as in group:128", printable(digits),
                 too_large ? "too large; give one of at most 2^63 - 1" : "not a number above 0");
  }
  return error(Code::invalid_argument, "granularity", "'{}' is not one of tensor, row, group:N", printable(text));
}

Result<DeviceId> parse_device(std::string_view text) {
  if (text == "cpu") return DeviceId{DeviceKind::cpu, 0};
  if (text.substr(0, 5) == "cuda:") {
    const auto index = whole_number(text.substr(5));
    if (index && *index >= 0 && *index < 1024) return DeviceId{DeviceKind::cuda, static_cast<int>(*index)};
  }
  return error(Code::invalid_argument, "device", "'{}' is not cpu or cuda:N, as in cuda:0; `tern devices` lists them",
               printable(text));
}

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::i8:
    case DType::u8: return 1;
  }
  return 1;
}

}  // namespace tern
