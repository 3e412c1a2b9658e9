// Calls the C interface of oneDNN 2.x without its headers, multiplies gathered windows with OpenBLAS, and has the loops
// that everybody would write first.
#include "lab/conv2d_baselines.h"

#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "base/errors.h"
#include "lab/blas_functions.h"
#include "lab/rotation.h"
#include "plan/context_state.h"

namespace tern::lab {
namespace {

// A problem, and what its parts have of elements.
struct ConvSizes {
  Conv2d::Problem p;
  Conv2d::Size y;

  explicit ConvSizes(const Conv2d::Problem& problem) : p(problem), y(*Conv2d::output_size(problem)) {}
  [[nodiscard]] std::int64_t channels() const { return p.filters.in_channels * p.filters.groups; }
  [[nodiscard]] std::int64_t k() const { return p.filters.in_channels * p.filters.height * p.filters.width; }
  [[nodiscard]] std::int64_t pixels() const { return y.height * y.width; }
  [[nodiscard]] std::int64_t x_elements() const { return p.images * channels() * p.height * p.width; }
  [[nodiscard]] std::int64_t w_elements() const { return p.filters.out_channels * k(); }
  [[nodiscard]] std::int64_t y_elements() const { return p.images * p.filters.out_channels * pixels(); }
  // The input pixel of an output pixel and a tap; may be outside the image.
  [[nodiscard]] std::int64_t row(std::int64_t oy, std::int64_t ty) const {
    return oy * p.stride_h + ty * p.dilation_h - p.padding.top;
  }
  [[nodiscard]] std::int64_t column(std::int64_t ox, std::int64_t tx) const {
    return ox * p.stride_w + tx * p.dilation_w - p.padding.left;
  }
};

// 60 as int8, and four of them are about 0.01 as f32: no value is denormal.
constexpr std::byte kFill{0x3C};

// Images and results in rotating copies, the weights once, as those of the case.
struct ConvBuffers {
  Rotation images;  // x, y
  Tensor weights;

  static Result<std::shared_ptr<ConvBuffers>> make(const BenchRequest& request, const Context& context,
                                                   std::size_t x_bytes, std::size_t w_bytes, std::size_t y_bytes) {
    auto buffers = std::make_shared<ConvBuffers>();
    const std::array parts = {x_bytes, y_bytes};
    TERN_ASSIGN(images, Rotation::make(request, context, parts));
    buffers->images = std::move(images);
    TERN_ASSIGN(weights, Tensor::allocate(context.memory(), DType::u8, {static_cast<std::int64_t>(w_bytes)}, "bench"));
    buffers->weights = std::move(weights);
    std::memset(buffers->weights.data(), static_cast<int>(kFill), w_bytes);
    for (std::int64_t copy = 0; copy < buffers->images.copies(); ++copy)
      for (std::size_t part = 0; part < parts.size(); ++part)
        std::memset(buffers->images.part(part, copy), static_cast<int>(kFill), parts[part]);
    return buffers;
  }
  static Result<std::shared_ptr<ConvBuffers>> floats(const BenchRequest& request, const Context& context,
                                                     const ConvSizes& s) {
    const auto bytes = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); };
    return make(request, context, bytes(s.x_elements()), bytes(s.w_elements()), bytes(s.y_elements()));
  }
  [[nodiscard]] float* part(std::size_t part, std::int64_t turn) const {
    return static_cast<float*>(images.part(part, turn % images.copies()));
  }
  [[nodiscard]] const float* w() const { return static_cast<const float*>(weights.data()); }
};

// Calls f(i) for [0, count) on the context's threads.
template <class F>
void each(const Context& context, std::int64_t count, F f) {
  WorkQueue queue(count, 1);
  context.state().threads.run(context.threads(), [&](int) {
    for (std::int64_t i = 0, end = 0; queue.next(i, end);) f(i);
  });
}

Result<Context> with_threads(int threads) {
  ContextConfig config;
  config.threads = threads;
  return Context::open(DeviceId{}, std::move(config));
}

// y of one filter: everything in NCHW.
void convolve_plainly(const ConvSizes& s, const float* x, const float* w, float* y, std::int64_t image,
                      std::int64_t filter) {
  const FilterShape& f = s.p.filters;
  const std::int64_t first = filter / (f.out_channels / f.groups) * f.in_channels;
  for (std::int64_t oy = 0; oy < s.y.height; ++oy)
    for (std::int64_t ox = 0; ox < s.y.width; ++ox) {
      float sum = 0;
      for (std::int64_t c = 0; c < f.in_channels; ++c)
        for (std::int64_t ty = 0; ty < f.height; ++ty)
          for (std::int64_t tx = 0; tx < f.width; ++tx) {
            const std::int64_t row = s.row(oy, ty), column = s.column(ox, tx);
            if (row < 0 || row >= s.p.height || column < 0 || column >= s.p.width) continue;
            sum += x[((image * s.channels() + first + c) * s.p.height + row) * s.p.width + column] *
                   w[filter * s.k() + (c * f.height + ty) * f.width + tx];
          }
      y[(image * f.out_channels + filter) * s.pixels() + oy * s.y.width + ox] = sum;
    }
}

Result<BaselineRun> naive_loops(const BenchRequest& request, const Context& context, const ConvSizes& s, int threads) {
  TERN_ASSIGN(buffers, ConvBuffers::floats(request, context, s));
  TERN_ASSIGN(pool, with_threads(threads));
  return BaselineRun([s, buffers, pool](std::int64_t turn) -> Status {
    const std::int64_t filters = s.p.filters.out_channels;
    each(pool, s.p.images * filters, [&](std::int64_t i) {
      convolve_plainly(s, buffers->part(0, turn), buffers->w(), buffers->part(1, turn), i / filters, i % filters);
    });
    return {};
  });
}

// The windows of a row of output pixels, from one image and group in NHWC: [pixels][taps][channels].
void gather_windows(const ConvSizes& s, const float* image, std::int64_t group, std::int64_t oy, float* windows) {
  const FilterShape& f = s.p.filters;
  const auto bytes = static_cast<std::size_t>(f.in_channels) * sizeof(float);
  for (std::int64_t ox = 0; ox < s.y.width; ++ox)
    for (std::int64_t ty = 0; ty < f.height; ++ty)
      for (std::int64_t tx = 0; tx < f.width; ++tx, windows += f.in_channels) {
        const std::int64_t row = s.row(oy, ty), column = s.column(ox, tx);
        if (row < 0 || row >= s.p.height || column < 0 || column >= s.p.width)
          std::memset(windows, 0, bytes);
        else
          std::memcpy(windows, image + (row * s.p.width + column) * s.channels() + group * f.in_channels, bytes);
      }
}

Result<BaselineRun> im2col(const BenchRequest& request, const Context& context, const ConvSizes& s, int threads) {
  TERN_ASSIGN(library, open_library(kOpenBlas));
  auto* sgemm = symbol<Sgemm>(library, "cblas_sgemm");
  auto* set_threads = symbol<SetThreads>(library, "openblas_set_num_threads");
  if (sgemm == nullptr || set_threads == nullptr)
    return error(Code::unsupported, "bench", "{} lacks cblas_sgemm or its thread count", kOpenBlas);
  TERN_ASSIGN(buffers, ConvBuffers::floats(request, context, s));
  TERN_ASSIGN(windows, Tensor::allocate(context.memory(), DType::f32, {s.pixels(), s.k()}, "bench"));
  const auto gathered = std::make_shared<Tensor>(std::move(windows));
  TERN_ASSIGN(pool, with_threads(threads));
  return BaselineRun([=](std::int64_t turn) -> Status {
    set_threads(threads);
    const FilterShape& f = s.p.filters;
    auto* all = static_cast<float*>(gathered->data());
    // A pixel is its own window: nothing to gather.
    const bool plain = f.height * f.width == 1 && f.groups == 1 && s.pixels() == s.p.height * s.p.width;
    const std::int64_t filters = f.out_channels / f.groups;
    const auto n = static_cast<int>(filters), m = static_cast<int>(s.pixels()), k = static_cast<int>(s.k());
    for (std::int64_t image = 0; image < s.p.images; ++image)
      for (std::int64_t group = 0; group < f.groups; ++group) {
        const float* x = buffers->part(0, turn) + image * s.channels() * s.p.height * s.p.width;
        if (!plain)
          each(pool, s.y.height,
               [&](std::int64_t oy) { gather_windows(s, x, group, oy, all + oy * s.y.width * s.k()); });
        float* y = buffers->part(1, turn) + image * s.pixels() * f.out_channels + group * filters;
        sgemm(kRowMajor, kPlain, kTransposed, m, n, k, 1, plain ? x : all, k, buffers->w() + group * filters * s.k(), k,
              0, y, static_cast<int>(f.out_channels));
      }
    return {};
  });
}

// What oneDNN 2.x has behind its handles. Descriptors are structs that it fills, of 696 and 5976 bytes in 2.6.
struct alignas(64) MemoryDescriptor {
  std::array<std::byte, 4096> bytes;
};
struct alignas(64) ConvolutionDescriptor {
  std::array<std::byte, 32768> bytes;
};
struct Argument {
  int index = 0;
  void* memory = nullptr;
};
enum class DnnlType { f32 = 3, s8 = 5 };
using DnnlDims = std::array<std::int64_t, 12>;

struct OneDnn {
  SetThreads* set_threads = nullptr;
  int (*engine_create)(void** engine, int kind, std::size_t index) = nullptr;
  int (*stream_create)(void** stream, void* engine, unsigned flags) = nullptr;
  int (*stream_wait)(void* stream) = nullptr;
  int (*tagged)(MemoryDescriptor*, int axes, const std::int64_t* dims, int type, int tag) = nullptr;
  std::size_t (*bytes_of)(const void* descriptor) = nullptr;
  int (*describe)(ConvolutionDescriptor*, int propagation, int algorithm, const MemoryDescriptor* x,
                  const MemoryDescriptor* w, const MemoryDescriptor* bias, const MemoryDescriptor* y,
                  const std::int64_t* strides, const std::int64_t* dilations, const std::int64_t* before,
                  const std::int64_t* after) = nullptr;
  int (*choose)(void** choice, const void* descriptor, const void* attributes, void* engine,
                const void* hint) = nullptr;
  const void* (*chosen)(const void* choice, int what, int index) = nullptr;
  int (*choose_reorder)(void** choice, const void* from, void* engine, const void* to, void* same_engine,
                        const void* attributes) = nullptr;
  int (*primitive_create)(void** primitive, const void* choice) = nullptr;
  int (*memory_create)(void** memory, const void* descriptor, void* engine, void* data) = nullptr;
  int (*execute)(const void* primitive, void* stream, int count, const Argument* arguments) = nullptr;
  int (*destroy_engine)(void*) = nullptr;
  int (*destroy_stream)(void*) = nullptr;
  int (*destroy_choice)(void*) = nullptr;
  int (*destroy_primitive)(void*) = nullptr;
  int (*destroy_memory)(void*) = nullptr;

  static Result<OneDnn> load() {
    TERN_ASSIGN(library, open_library(kOneDnn));
    OneDnn dnnl;
    bool all = true;
    const auto find = [&]<class F>(F*& function, const char* name) {
      function = symbol<F>(library, name);
      all = all && function != nullptr;
    };
    find(dnnl.set_threads, "omp_set_num_threads");  // of the library's OpenMP runtime
    find(dnnl.engine_create, "dnnl_engine_create");
    find(dnnl.stream_create, "dnnl_stream_create");
    find(dnnl.stream_wait, "dnnl_stream_wait");
    find(dnnl.tagged, "dnnl_memory_desc_init_by_tag");
    find(dnnl.bytes_of, "dnnl_memory_desc_get_size");
    find(dnnl.describe, "dnnl_dilated_convolution_forward_desc_init");
    find(dnnl.choose, "dnnl_primitive_desc_create");
    find(dnnl.chosen, "dnnl_primitive_desc_query_md");
    find(dnnl.choose_reorder, "dnnl_reorder_primitive_desc_create");
    find(dnnl.primitive_create, "dnnl_primitive_create");
    find(dnnl.memory_create, "dnnl_memory_create");
    find(dnnl.execute, "dnnl_primitive_execute");
    find(dnnl.destroy_engine, "dnnl_engine_destroy");
    find(dnnl.destroy_stream, "dnnl_stream_destroy");
    find(dnnl.destroy_choice, "dnnl_primitive_desc_destroy");
    find(dnnl.destroy_primitive, "dnnl_primitive_destroy");
    find(dnnl.destroy_memory, "dnnl_memory_destroy");
    if (!all) return error(Code::unsupported, "bench", "{} lacks a function of convolutions, or OpenMP", kOneDnn);
    return dnnl;
  }
};

// A convolution of oneDNN with its buffers, in the layouts that it chose.
class OneDnnConvolution {
 public:
  explicit OneDnnConvolution(const OneDnn& functions) : dnnl_(functions) {}
  OneDnnConvolution(const OneDnnConvolution&) = delete;
  OneDnnConvolution& operator=(const OneDnnConvolution&) = delete;
  ~OneDnnConvolution() {
    for (; !objects_.empty(); objects_.pop_back()) objects_.back().second(objects_.back().first);
  }

  Status init(const BenchRequest& request, const Context& context, const ConvSizes& s, DnnlType type) {
    constexpr int kCpu = 1, kInOrder = 1, kInference = 96, kDirect = 1, kAnyLayout = 1, kOihw = 5, kGoihw = 7;
    constexpr int kAskX = 129, kAskW = 131, kAskY = 133;
    const Conv2d::Problem& p = s.p;
    const FilterShape& f = p.filters;
    const bool grouped = f.groups > 1;
    const int w_axes = grouped ? 5 : 4;
    const DnnlDims x_dims = {p.images, s.channels(), p.height, p.width};
    const DnnlDims y_dims = {p.images, f.out_channels, s.y.height, s.y.width};
    DnnlDims w_dims = {f.out_channels, f.in_channels, f.height, f.width};
    if (grouped) w_dims = {f.groups, f.out_channels / f.groups, f.in_channels, f.height, f.width};
    const DnnlDims strides = {p.stride_h, p.stride_w}, dilations = {p.dilation_h - 1, p.dilation_w - 1};
    const DnnlDims before = {p.padding.top, p.padding.left}, after = {p.padding.bottom, p.padding.right};
    const auto describe = [&](const DnnlDims& dims, int axes, DnnlType of, int layout, MemoryDescriptor& made) {
      return dnnl_.tagged(&made, axes, dims.data(), static_cast<int>(of), layout) == 0;
    };
    MemoryDescriptor x, w, y, plain_w;
    ConvolutionDescriptor convolution;
    void *engine = nullptr, *choice = nullptr;
    if (!owned(dnnl_.engine_create(&engine, kCpu, 0), engine, dnnl_.destroy_engine) ||
        !owned(dnnl_.stream_create(&stream_, engine, kInOrder), stream_, dnnl_.destroy_stream) ||
        !describe(x_dims, 4, type, kAnyLayout, x) || !describe(w_dims, w_axes, type, kAnyLayout, w) ||
        !describe(y_dims, 4, DnnlType::f32, kAnyLayout, y) ||
        !describe(w_dims, w_axes, type, grouped ? kGoihw : kOihw, plain_w) ||
        dnnl_.describe(&convolution, kInference, kDirect, &x, &w, nullptr, &y, strides.data(), dilations.data(),
                       before.data(), after.data()) != 0 ||
        !owned(dnnl_.choose(&choice, &convolution, nullptr, engine, nullptr), choice, dnnl_.destroy_choice) ||
        !owned(dnnl_.primitive_create(&primitive_, choice), primitive_, dnnl_.destroy_primitive))
      return error(Code::unsupported, "bench", "{} has no such convolution", kOneDnn);
    const void* const x_chosen = dnnl_.chosen(choice, kAskX, 0);
    const void* const w_chosen = dnnl_.chosen(choice, kAskW, 0);
    const void* const y_chosen = dnnl_.chosen(choice, kAskY, 0);
    TERN_ASSIGN(made, ConvBuffers::make(request, context, dnnl_.bytes_of(x_chosen), dnnl_.bytes_of(w_chosen),
                                        dnnl_.bytes_of(y_chosen)));
    buffers_ = made;
    const auto memory = [&](void*& object, const void* descriptor, void* data) {
      return owned(dnnl_.memory_create(&object, descriptor, engine, data), object, dnnl_.destroy_memory);
    };
    bool all = memory(weights_, w_chosen, buffers_->weights.data());
    for (std::int64_t copy = 0; copy < buffers_->images.copies(); ++copy) {
      auto& [in, out] = images_.emplace_back();
      all = all && memory(in, x_chosen, buffers_->part(0, copy)) && memory(out, y_chosen, buffers_->part(1, copy));
    }
    // Weights of int8 have sums behind them, which only a reorder writes.
    std::vector<std::byte> plain(dnnl_.bytes_of(&plain_w), kFill);
    void *from = nullptr, *reorder_choice = nullptr, *reorder = nullptr;
    all = all && memory(from, &plain_w, plain.data()) &&
          owned(dnnl_.choose_reorder(&reorder_choice, &plain_w, engine, w_chosen, engine, nullptr), reorder_choice,
                dnnl_.destroy_choice) &&
          owned(dnnl_.primitive_create(&reorder, reorder_choice), reorder, dnnl_.destroy_primitive) &&
          execute(reorder, {{kX, from}, {kY, weights_}});
    if (!all) return error(Code::internal, "bench", "{} did not take the buffers of a convolution", kOneDnn);
    return {};
  }

  [[nodiscard]] Status run(int threads, std::int64_t turn) const {
    dnnl_.set_threads(threads);
    const auto& [x, y] = images_[static_cast<std::size_t>(turn) % images_.size()];
    if (execute(primitive_, {{kX, x}, {kW, weights_}, {kY, y}})) return {};
    return error(Code::internal, "bench", "a convolution of {} failed", kOneDnn);
  }

 private:
  static constexpr int kX = 1, kW = 33, kY = 17;  // indices of arguments

  // Keeps what was made, to destroy it in the end. The call that returns `status` writes `object`.
  bool owned(int status, void* const& object, int (*destroy)(void*)) {
    if (status == 0) objects_.emplace_back(object, destroy);
    return status == 0;
  }
  [[nodiscard]] bool execute(const void* primitive, std::initializer_list<Argument> arguments) const {
    return dnnl_.execute(primitive, stream_, static_cast<int>(arguments.size()), std::data(arguments)) == 0 &&
           dnnl_.stream_wait(stream_) == 0;
  }

  OneDnn dnnl_;
  void *stream_ = nullptr, *primitive_ = nullptr, *weights_ = nullptr;
  std::vector<std::array<void*, 2>> images_;  // x and y of each copy
  std::vector<std::pair<void*, int (*)(void*)>> objects_;
  std::shared_ptr<ConvBuffers> buffers_;
};

Result<BaselineRun> onednn_convolution(const BenchRequest& request, const Context& context, const ConvSizes& s,
                                       DnnlType type, int threads) {
  TERN_ASSIGN(dnnl, OneDnn::load());
  dnnl.set_threads(threads);  // it chooses blocks for them
  const auto convolution = std::make_shared<OneDnnConvolution>(dnnl);
  TERN_RETURN_IF_ERROR(convolution->init(request, context, s, type));
  return BaselineRun([convolution, threads](std::int64_t turn) { return convolution->run(threads, turn); });
}

}  // namespace

std::vector<BaselineCase> conv2d_baselines(const BenchRequest& request, const Context& context,
                                           const Conv2d::Problem& problem) {
  const ConvSizes s(problem);
  const auto onednn = [=](DnnlType type) {
    return [=](int threads) { return onednn_convolution(request, context, s, type, threads); };
  };
  return {{"onednn s8", onednn(DnnlType::s8)},
          {"onednn f32", onednn(DnnlType::f32)},
          {"im2col + openblas sgemm", [=](int threads) { return im2col(request, context, s, threads); }},
          {"naive loops", [=](int threads) { return naive_loops(request, context, s, threads); }}};
}

}  // namespace tern::lab
