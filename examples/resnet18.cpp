// Runs images through all convolutions of ResNet-18 with random ternary weights; prints images/s and a checksum of the
// final features.
//
//   resnet18 [--image 224] [--images 1] [--runs 10] [--kernel conv2d.i2.reference]
//
// Between layers lie int8 images in NHWC, each with one scale: conv2d writes f32, activation_quantize takes an image as
// one token and makes int8 of it, and the layers that read it share it. The residual stays f32. All of this is exact,
// so the checksum is the same for every kernel and thread count.
#include <tern/tern.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using Floats = std::vector<float>;

// Exits on an error, which an example may do and a library may not.
void check(const char* what, const tern::Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s: %s\n", what, status.error().str().c_str());
  std::exit(1);
}
template <class T>
T must(const char* what, tern::Result<T> result) {
  if (!result) check(what, result.error());
  return *std::move(result);
}

// From -1 to 1. The standard's distributions differ from library to library; these bits do not.
float random_value() {
  static std::mt19937_64 random;
  return static_cast<float>(random() >> 40) / 8388608 - 1;
}

// Square images in NHWC, in floats.
struct Images {
  std::int64_t count = 0, size = 0, channels = 0;
  Floats x = Floats(static_cast<std::size_t>(count * size * size * channels));
  [[nodiscard]] tern::Shape shape() const { return {count, size, size, channels}; }
  [[nodiscard]] tern::TensorView view() { return {x.data(), tern::DType::f32, shape()}; }
  [[nodiscard]] float* pixel(std::int64_t image, std::int64_t y, std::int64_t x_) {
    return x.data() + ((image * size + y) * size + x_) * channels;
  }
};

class Network {
 public:
  Network(tern::Context context, std::string kernel) : context_(std::move(context)), kernel_(std::move(kernel)) {}

  // Makes int8 of images, with one scale for each.
  struct Quantizer {
    tern::ActivationQuantizePlan plan;
    tern::Shape shape;
    std::vector<std::int8_t> q;
    Floats scales;
    std::vector<std::int32_t> sums;
  };
  Quantizer quantizer(const Images& of) {
    const std::int64_t k = of.size * of.size * of.channels;
    auto plan = must("quantizer", tern::ActivationQuantizePlan::select(context_, {.m = of.count, .k = k}));
    workspace_bytes_ = std::max(workspace_bytes_, plan.workspace_bytes());
    const auto images = static_cast<std::size_t>(of.count);
    return {std::move(plan), of.shape(), std::vector<std::int8_t>(of.x.size()), Floats(images),
            std::vector<std::int32_t>(images)};
  }
  void run(Quantizer& to, Images& from) const {
    const std::int64_t m = from.count, k = from.size * from.size * from.channels;
    check("quantize", to.plan.run(context_.stream(), workspace_.as<std::byte>(),
                                  {.x = {from.x.data(), tern::DType::f32, {m, k}},
                                   .q = {to.q.data(), tern::DType::i8, {m, k}},
                                   .scales = {to.scales.data(), tern::DType::f32, {m}},
                                   .sums = {to.sums.data(), tern::DType::i32, {m}}}));
  }

  struct Layer {
    tern::Conv2dPlan plan;
    tern::PackedFilters filters;
    Floats bias;
    Images y;
  };
  enum class After { relu, residual, nothing };
  // Square filters, padded so that only the stride makes the image smaller. Their weights are uniform at first, with a
  // variance that keeps the size of what flows through; absmean makes trits of them. A trained network's batch norm
  // would be in scales and bias.
  Layer layer(const Images& x, std::int64_t channels, std::int64_t taps, std::int64_t stride, After after) {
    const tern::FilterShape shape{channels, x.channels, taps, taps};
    const std::int64_t k = x.channels * taps * taps;
    Floats w(static_cast<std::size_t>(channels * k)), bias(static_cast<std::size_t>(channels));
    for (float& value : w) value = random_value() * 3 / std::sqrt(static_cast<float>(k));
    for (float& value : bias) value = random_value() / 8;
    const auto trits = must("quantize", tern::quantize(context_, {w.data(), tern::DType::f32, {channels, k}},
                                                       {.granularity = tern::Granularity::row()}));
    const tern::Conv2d::Problem problem{
        .images = x.count,
        .height = x.size,
        .width = x.size,
        .filters = shape,
        .stride_h = stride,
        .stride_w = stride,
        .padding = tern::Conv2d::Padding::all(taps / 2),
        .x_dtype = tern::DType::i8,
        .x_order = tern::ImageOrder::nhwc,
        .y_order = tern::ImageOrder::nhwc,
        .granularity = tern::Granularity::row(),
        .bias = true,
        .activation = after == After::relu ? tern::Activation::relu : tern::Activation::none,
        .residual = after == After::residual};
    auto plan = must("plan", tern::Conv2dPlan::select(context_, problem, {.kernel = kernel_, .strict = true}));
    workspace_bytes_ = std::max(workspace_bytes_, plan.workspace_bytes());
    const auto size = must("size", tern::Conv2d::output_size(problem));
    return {std::move(plan),
            must("pack", tern::PackedFilters::pack(context_, trits, shape)),
            std::move(bias),
            {.count = x.count, .size = size.height, .channels = channels}};
  }
  void run(Layer& layer, const Quantizer& x, Images* residual = nullptr) const {
    const std::int64_t images = layer.y.count, channels = layer.y.channels;
    tern::Conv2d::Args args{.x = {x.q.data(), tern::DType::i8, x.shape},
                            .x_scales = {x.scales.data(), tern::DType::f32, {images}},
                            .filters = layer.filters,
                            .bias = {layer.bias.data(), tern::DType::f32, {channels}},
                            .y = layer.y.view()};
    if (residual != nullptr) args.residual = residual->view();
    check("convolve", layer.plan.run(context_.stream(), workspace_.as<std::byte>(), args));
  }

  // One workspace serves every plan, because they run one after the other. Call it when all plans are made.
  void allocate_workspace() {
    workspace_ = must("workspace", tern::Tensor::allocate(context_.memory(), tern::DType::u8,
                                                          {static_cast<std::int64_t>(workspace_bytes_)}, "workspace"));
  }

 private:
  tern::Context context_;
  std::string kernel_;
  std::size_t workspace_bytes_ = 0;
  tern::Tensor workspace_;
};

// y = relu(second(relu(first(x))) + x), where x passes a layer of its own if its shape changes.
struct Block {
  Network::Quantizer in;
  Network::Layer first;
  Network::Quantizer middle;
  Network::Layer second;
  std::optional<Network::Layer> shortcut;
};
Block make_block(Network& network, const Images& x, std::int64_t channels, std::int64_t stride) {
  using After = Network::After;
  auto in = network.quantizer(x);
  auto first = network.layer(x, channels, 3, stride, After::relu);
  auto middle = network.quantizer(first.y);
  auto second = network.layer(first.y, channels, 3, 1, After::residual);
  Block block{std::move(in), std::move(first), std::move(middle), std::move(second), {}};
  if (channels != x.channels) block.shortcut = network.layer(x, channels, 1, stride, After::nothing);
  return block;
}
Images& run(const Network& network, Block& block, Images& x) {
  network.run(block.in, x);
  network.run(block.first, block.in);
  network.run(block.middle, block.first.y);
  if (block.shortcut) network.run(*block.shortcut, block.in);
  network.run(block.second, block.middle, block.shortcut ? &block.shortcut->y : &x);
  for (float& value : block.second.y.x) value = std::max(value, 0.0F);  // the op's own would come before the residual
  return block.second.y;
}

// The largest of 3 x 3 pixels, at every second one. x is not negative, so padding with 0 changes nothing.
void max_pool(Images& x, Images& y) {
  for (std::int64_t image = 0; image < y.count; ++image)
    for (std::int64_t oy = 0; oy < y.size; ++oy)
      for (std::int64_t ox = 0; ox < y.size; ++ox) {
        float* to = y.pixel(image, oy, ox);
        std::fill_n(to, y.channels, 0.0F);
        for (std::int64_t iy = std::max<std::int64_t>(2 * oy - 1, 0); iy < std::min(2 * oy + 2, x.size); ++iy)
          for (std::int64_t ix = std::max<std::int64_t>(2 * ox - 1, 0); ix < std::min(2 * ox + 2, x.size); ++ix) {
            const float* from = x.pixel(image, iy, ix);
            for (std::int64_t c = 0; c < y.channels; ++c) to[c] = std::max(to[c], from[c]);
          }
      }
}

// The mean over all pixels: the features, [images, channels].
Floats average(Images& x) {
  Floats mean(static_cast<std::size_t>(x.count * x.channels));
  for (std::int64_t image = 0; image < x.count; ++image) {
    float* to = mean.data() + image * x.channels;
    for (std::int64_t at = 0; at < x.size * x.size; ++at)
      for (std::int64_t c = 0; c < x.channels; ++c) to[c] += x.pixel(image, 0, at)[c];
    for (std::int64_t c = 0; c < x.channels; ++c) to[c] /= static_cast<float>(x.size * x.size);
  }
  return mean;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options = {
      {"--image", "224"}, {"--images", "1"}, {"--runs", "10"}, {"--kernel", ""}};
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const auto number = [&](const char* name) { return std::atoi(options[name].c_str()); };
  const int size = number("--image"), count = number("--images"), runs = number("--runs");
  if (argc % 2 == 0 || options.size() != 4 || size < 1 || size > 4096 || count < 1 || runs < 1) {
    std::fprintf(stderr, "%s [--image SIZE] [--images N] [--runs N] [--kernel NAME]\n", argv[0]);
    return 1;
  }
  const tern::Context context = must("open", tern::Context::open());
  Network network(context, options["--kernel"]);
  Images image{.count = count, .size = size, .channels = 3};
  for (float& value : image.x) value = random_value();

  auto stem_in = network.quantizer(image);
  auto stem = network.layer(image, 64, 7, 2, Network::After::relu);
  Images pooled{.count = count, .size = (stem.y.size + 1) / 2, .channels = 64};
  std::vector<Block> blocks;
  for (const int channels : {64, 128, 256, 512})
    for (const int in_stage : {0, 1})
      blocks.push_back(make_block(network, blocks.empty() ? pooled : blocks.back().second.y, channels,
                                  channels > 64 && in_stage == 0 ? 2 : 1));
  network.allocate_workspace();
  std::printf("kernel:   %s, %d threads\n", stem.plan.id().kernel.c_str(), context.threads());

  Floats features;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) {
    network.run(stem_in, image);
    network.run(stem, stem_in);
    max_pool(stem.y, pooled);
    Images* x = &pooled;
    for (Block& block : blocks) x = &run(network, block, *x);
    features = average(*x);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::uint64_t checksum = 0xCBF29CE484222325U;  // FNV-1a
  for (const std::byte byte : std::as_bytes(std::span(features)))
    checksum = (checksum ^ static_cast<std::uint64_t>(byte)) * 0x100000001B3U;
  std::printf("images/s: %.2f\nchecksum: %016" PRIx64 "\n", runs * count / seconds.count(), checksum);
  return 0;
}
