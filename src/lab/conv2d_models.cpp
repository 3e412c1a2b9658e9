// The convolutions of networks that classify ImageNet, on images of 224 x 224, from the papers; strides as torchvision
// has them, which puts those of ResNet-50 on the 3 x 3 filters. Layers that are alike are one problem.
#include <algorithm>

#include "base/errors.h"
#include "lab/models.h"
#include "lab/op_bench.h"

namespace tern::lab {
namespace {

constexpr std::string_view kKnown[] = {"resnet18", "resnet50", "mobilenet_v2", "vgg16"};

// Builds a network layer by layer; images are square.
class Network {
 public:
  // Returns the size of the results. Half of the filter is padding.
  std::int64_t add(std::int64_t size, std::int64_t out, std::int64_t in, std::int64_t filter, std::int64_t stride = 1,
                   std::int64_t groups = 1) {
    const std::int64_t pad = filter / 2;
    const WindowWords window{.filters = {out, in / groups, filter, filter},
                             .groups = groups,
                             .height = size,
                             .width = size,
                             .stride = {stride, stride},
                             .padding = {pad, pad, pad, pad}};
    const auto alike = std::ranges::find(layers_, window, &ConvLayer::window);
    if (alike == layers_.end())
      layers_.push_back({window});
    else
      ++alike->times;
    return (size + 2 * pad - filter) / stride + 1;
  }
  std::vector<ConvLayer> take() { return std::move(layers_); }

 private:
  std::vector<ConvLayer> layers_;
};

// Blocks of two 3 x 3 convolutions, or of a narrow one between two of 1 x 1 that lead to four times as many channels.
std::vector<ConvLayer> resnet(std::array<std::int64_t, 4> blocks, bool narrow) {
  Network net;
  std::int64_t size = net.add(224, 64, 3, 7, 2) / 2, in = 64;  // a pooling layer halves it
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const std::int64_t width = std::int64_t{64} << stage, out = narrow ? 4 * width : width;
    for (std::int64_t block = 0; block < blocks[stage]; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1, before = size;
      if (narrow) {
        net.add(before, width, in, 1);
        size = net.add(before, width, width, 3, stride);
        net.add(size, out, width, 1);
      } else {
        size = net.add(before, width, in, 3, stride);
        net.add(size, width, width, 3);
      }
      if (stride != 1 || in != out) net.add(before, out, in, 1, stride);  // beside the block
      in = out;
    }
  }
  return net.take();
}

std::vector<ConvLayer> mobilenet_v2() {
  struct Stage {
    std::int64_t wider, out, blocks, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  Network net;
  std::int64_t size = net.add(224, 32, 3, 3, 2), in = 32;
  for (const Stage& stage : kStages)
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      const std::int64_t wide = in * stage.wider;
      if (wide != in) net.add(size, wide, in, 1);
      size = net.add(size, wide, wide, 3, block == 0 ? stage.stride : 1, wide);
      net.add(size, stage.out, wide, 1);
      in = stage.out;
    }
  net.add(size, 1280, in, 1);
  return net.take();
}

std::vector<ConvLayer> vgg16() {
  constexpr std::array<std::int64_t, 2> kStages[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
  Network net;
  std::int64_t size = 224, in = 3;
  for (const auto& [out, layers] : kStages) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      net.add(size, out, in, 3);
      in = out;
    }
    size /= 2;  // pooling
  }
  return net.take();
}

}  // namespace

std::vector<ConvLayer> conv2d_layers(std::string_view model) {
  if (model == "resnet18") return resnet({2, 2, 2, 2}, false);
  if (model == "resnet50") return resnet({3, 4, 6, 3}, true);
  if (model == "mobilenet_v2") return mobilenet_v2();
  if (model == "vgg16") return vgg16();
  return {};
}

template <>
Result<std::vector<ModelCase>> models_of<Conv2d>(const BenchRequest& request) {
  TERN_RETURN_IF_ERROR(check_model(request, kKnown));
  TERN_ASSIGN(words, words_of(request, OpTraits<Conv2d>::kWords, 0, 0));
  std::vector<ModelCase> cases;
  for (const DType x : x_dtypes(request)) {
    ModelCase& model = cases.emplace_back(ModelCase{.name = request.model,
                                                    .layers = "convolutions",
                                                    .item = "image",
                                                    .m = request.m.value_or(1),
                                                    .x_dtype = x,
                                                    .problems = {}});
    words.dtype = x;
    for (const ConvLayer& layer : conv2d_layers(request.model)) {
      words.window = layer.window;
      model.problems.push_back(model_problem<Conv2d>(OpTraits<Conv2d>::problem(words), layer.times));
    }
  }
  return cases;
}

}  // namespace tern::lab
