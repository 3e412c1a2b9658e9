// Runs the affine ops' cases for callgrind.
#include "tests/callgrind/measured.h"

namespace tern::callgrind {

bool is_affine(const std::string& kernel) {
  for (const char* op : {"affine_", "fake_", "choose_", "dynamic_"})
    if (kernel.starts_with(op)) return true;
  return false;
}

Status run_affine(const Context& context, const std::string& kernel, const std::string& dtype_word,
                  const std::string& granularity_word, const std::vector<float>& x) {
  const auto dtype = parse_dtype(dtype_word);
  const auto granularity = parse_affine_granularity(granularity_word);
  const std::size_t op = kernel.find('.');
  const auto format = parse_format(kernel.substr(op + 1, kernel.find('.', op + 1) - op - 1));
  if (!dtype.ok()) return dtype.error();
  if (!granularity.ok()) return granularity.error();
  if (!format.ok()) return format.error();
  const Shape shape{kRows, kColumns};
  const auto count = affine_scale_count(shape, *granularity);
  if (!count.ok()) return count.error();

  // bf16: the upper halves of floats.
  std::vector<std::uint16_t> halves(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    halves[i] = static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, x[i]) >> 16U);
  const void* in = *dtype == DType::bf16 ? static_cast<const void*>(halves.data()) : x.data();
  const ConstTensorView from{in, *dtype, shape};
  std::vector<float> out(x.size()), scales(static_cast<std::size_t>(*count), 0.01F), scales_out(scales);
  std::vector<std::int32_t> zeros(scales.size(), 1);
  std::vector<std::uint8_t> codes(x.size()), mask(x.size(), 1);
  const bool bytes = *format == Format::s8 || *format == Format::u8;
  const TensorView coded{
      codes.data(), *format == Format::s8 ? DType::i8 : DType::u8, {kRows, bytes ? kColumns : kColumns / 2}};
  const ConstTensorView scale{scales.data(), DType::f32, {*count}}, zero{zeros.data(), DType::i32, {*count}};
  const TensorView y{out.data(), *dtype, shape}, chosen{scales_out.data(), DType::f32, {*count}};
  const TensorView chosen_zero{zeros.data(), DType::i32, {*count}};

  const std::string name = kernel.substr(0, op);
  if (name == "affine_quantize")
    return run<AffineQuantize>(
        context, {.shape = shape, .granularity = *granularity, .dtype = *dtype, .format = *format, .zero_points = true},
        kernel, {.x = from, .scales = scale, .zero_points = zero, .codes = coded});
  if (name == "affine_dequantize")
    return run<AffineDequantize>(
        context, {.shape = shape, .granularity = *granularity, .dtype = *dtype, .format = *format, .zero_points = true},
        kernel, {.codes = coded, .scales = scale, .zero_points = zero, .y = y});
  if (name == "fake_quantize")
    return run<FakeQuantize>(
        context,
        {.shape = shape,
         .granularity = *granularity,
         .dtype = *dtype,
         .format = *format,
         .zero_points = true,
         .mask = true},
        kernel, {.x = from, .scales = scale, .zero_points = zero, .y = y, .mask = {mask.data(), DType::u8, shape}});
  if (name == "fake_quantize_backward") {
    std::vector<float> grad_zeros(scales.size());
    return run<FakeQuantizeBackward>(context,
                                     {.shape = shape,
                                      .granularity = *granularity,
                                      .dtype = *dtype,
                                      .format = *format,
                                      .zero_points = true,
                                      .qparam_gradients = true},
                                     kernel,
                                     {.grad_y = from,
                                      .x = from,
                                      .scales = scale,
                                      .zero_points = zero,
                                      .mask = {},
                                      .grad_x = y,
                                      .grad_scales = chosen,
                                      .grad_zero_points = {grad_zeros.data(), DType::f32, {*count}}});
  }
  if (name == "choose_qparams")
    return run<ChooseQparams>(context,
                              {.shape = shape,
                               .granularity = *granularity,
                               .dtype = *dtype,
                               .format = *format,
                               .method = QparamsMethod::minmax,
                               .zero_points = true},
                              kernel, {.x = from, .scales = chosen, .zero_points = chosen_zero});
  return run<DynamicQuantize>(context,
                              {.shape = shape, .granularity = *granularity, .dtype = *dtype, .format = *format}, kernel,
                              {.x = from, .codes = coded, .scales = chosen, .zero_points = {}});
}

}  // namespace tern::callgrind
