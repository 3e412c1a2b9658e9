// Drives an instruction set's loops over blocks of output pixels: stages the part of the image that a block needs,
// hands blocks to threads, runs the epilogue. The file is long because both modes and both orders of images share one
// walk.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "ops/activation_quantize/activation_quantize.h"
#include "ops/conv2d/cpu_blocks.h"

namespace tern::conv2d {
namespace {

using activation_quantize::source_of;

constexpr std::int64_t kMinProducts = 256 * 1024;  // fewest products worth another slot: some microseconds
constexpr std::int64_t kLookedAt = 16 * 1024;      // elements whose largest magnitude a slot finds at a time
constexpr std::uint32_t kInfinity = 0x7F80'0000U;

// The sums of a row of depthwise filters: loops of constant length, of which the compiler makes vectors.
template <class Acc, class T, class Sum>
void sum_taps(const DepthwiseRow<T, Sum>& row) {
  constexpr std::int64_t kChannels = DepthwiseRow<T, Sum>::kChannels, kStep = 32;
  for (std::int64_t pixel = 0; pixel < row.pixels; ++pixel)
    for (std::int64_t channel = 0; channel < row.channels; channel += kStep) {
      Acc sums[kStep] = {};
      for (std::int64_t tap = row.first; tap < row.last; ++tap) {
        const T* x = row.x + pixel * row.stride + channel + row.offsets[tap];
        const std::int16_t* w = row.w + tap * row.w_stride + channel;
        for (int i = 0; i < kStep; ++i)
          sums[i] = static_cast<Acc>(sums[i] + static_cast<Acc>(x[i]) * static_cast<Acc>(w[i]));
      }
      for (int i = 0; i < kStep; ++i) row.sums[pixel * kChannels + channel + i] = static_cast<Sum>(sums[i]);
    }
}
void sum_taps_of(const DepthwiseRow<std::int16_t, std::int32_t>& row) {
  if (row.narrow)
    sum_taps<std::int16_t>(row);
  else
    sum_taps<std::int32_t>(row);
}
void sum_taps_of(const DepthwiseRow<float, float>& row) { sum_taps<float>(row); }

class Driver {
 public:
  Driver(const SimdTable& table, const Params& params, const Exec& exec, const Blocks& blocks, const Memory& memory)
      : t_(table),
        p_(params),
        c_(params.problem),
        f_(params.problem.filters),
        exec_(exec),
        b_(blocks),
        memory_(memory),
        tile_(params.weights->tile),
        y_size_(static_cast<std::int64_t>(size_of(params.problem.y_dtype))) {}

  Status run() {
    if (!scale()) return non_finite_error(p_);
    list_offsets();
    // What is computed at a time of a group's filters, and how often.
    const std::int64_t filters = f_.out_channels / b_.groups, steps = ceil_div(filters, b_.ld());
    const std::int64_t down = ceil_div(p_.height, b_.height), across = ceil_div(p_.width, b_.width);
    const std::int64_t blocks = p_.images * b_.groups * down * across;
    const std::int64_t wanted = OpTraits<Conv2d>::operations(p_) / 2 / kMinProducts;
    const int slots = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, exec_.threads.count()));
    // A block's filters are divided where there are too few blocks to keep all threads busy.
    const std::int64_t parts = slots == 1 ? 1 : std::clamp<std::int64_t>(ceil_div(4 * slots, blocks), 1, steps);
    WorkQueue queue(blocks * parts, 1);
    exec_.threads.run(slots, [&](int slot) {
      WorkspaceLedger own(memory_.slots + static_cast<std::size_t>(slot) * memory_.slot_bytes);
      const Scratch scratch(own, b_, c_);
      for (std::int64_t item = 0, next = 0; queue.next(item, next);) {
        std::int64_t at = item / parts;
        const std::int64_t part = item % parts, ox = at % across * b_.width;
        at /= across;
        const std::int64_t oy = at % down * b_.height;
        at /= down;
        Block block{.image = at / b_.groups, .group = at % b_.groups, .oy = oy, .ox = ox, .scratch = scratch};
        block.height = std::min(b_.height, p_.height - oy);
        block.width = std::min(b_.width, p_.width - ox);
        convolve(block, steps * part / parts, steps * (part + 1) / parts);
      }
    });
    return {};
  }

 private:
  // Some output pixels of an image with the filters of a group.
  struct Block {
    std::int64_t image, group;
    std::int64_t oy, ox;
    std::int64_t height = 0, width = 0;
    const Scratch& scratch;
    // The staged rows; of the image itself, where nothing has to be staged.
    const std::byte* staged = nullptr;
    std::int64_t row_step = 0, pixel_step = 0;  // elements
  };

  // --- scales of the images ---

  // Returns false if an element is not finite and may not be.
  bool scale() {
    if (c_.x_dtype == DType::i8) {
      for (std::int64_t i = 0; i < p_.images; ++i) memory_.scales[i] = given_scale(i);
      return true;
    }
    std::fill_n(memory_.largest, p_.images, 0U);
    const bool planes = c_.x_order == ImageOrder::nchw;
    const std::int64_t channels = f_.in_channels * f_.groups;
    // An image's lines: all of it, if it is dense.
    std::int64_t length = planes ? c_.width : channels, lines = channels * c_.height * c_.width / length;
    const Image dense = planes ? Image{.channel = c_.height * c_.width, .row = c_.width, .pixel = 1}
                               : Image{.channel = 1, .row = channels * c_.width, .pixel = channels};
    if (p_.x_at.channel == dense.channel && p_.x_at.row == dense.row && p_.x_at.pixel == dense.pixel) {
      length *= lines;
      lines = 1;
    }
    const std::int64_t pieces = ceil_div(length, kLookedAt);
    std::atomic<bool> finite{true};
    WorkQueue queue(p_.images * lines * pieces, std::max<std::int64_t>(1, kLookedAt / length));
    const std::int64_t wanted = p_.images * lines * length / (4 * kLookedAt);
    const int slots = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, exec_.threads.count()));
    exec_.threads.run(slots, [&](int) {
      for (std::int64_t begin = 0, end = 0; queue.next(begin, end);)
        for (std::int64_t at = begin; at < end; ++at) {
          const std::int64_t image = at / (lines * pieces), line = at / pieces % lines, piece = at % pieces;
          const std::int64_t from = image * p_.x_at.image + line_at(line) + piece * kLookedAt;
          const std::uint32_t bits =
              largest_of(element(p_.x, c_.x_dtype, from), std::min(kLookedAt, length - piece * kLookedAt));
          if (bits >= kInfinity) finite = false;
          std::atomic_ref<std::uint32_t> all(memory_.largest[image]);
          for (std::uint32_t now = all.load(); now < bits && !all.compare_exchange_weak(now, bits);) continue;
        }
    });
    if (!finite) return false;
    for (std::int64_t i = 0; i < p_.images; ++i) {
      const auto max_abs = __builtin_bit_cast(float, memory_.largest[i]);
      memory_.scales[i] = c_.scale_given ? given_scale(i) : 127.0F / (max_abs > 1e-5F ? max_abs : 1e-5F);
    }
    return true;
  }
  // Where line `i` of an image begins that is not dense, in elements.
  [[nodiscard]] std::int64_t line_at(std::int64_t i) const {
    if (c_.x_order == ImageOrder::nchw) return i / c_.height * p_.x_at.channel + i % c_.height * p_.x_at.row;
    return i / c_.width * p_.x_at.row + i % c_.width * p_.x_at.pixel;
  }
  [[nodiscard]] float given_scale(std::int64_t image) const {
    return p_.x_scales == nullptr ? 0 : load_element<float>(p_.x_scales, image * p_.x_scale_step);
  }
  // The bits of the largest magnitude; an infinity's or more if an element is not finite and may not be.
  [[nodiscard]] std::uint32_t largest_of(const void* x, std::int64_t n) const {
    const std::uint32_t bits = t_.tokens.max_abs_bits[source_of(c_.x_dtype)](x, n);
    if (bits < kInfinity || c_.non_finite == NonFinite::reject) return bits;
    float largest = 0;
    for (std::int64_t i = 0; i < n; ++i)
      largest = std::max(
          largest, std::abs(activation_quantize::saturated(activation_quantize::read(x, c_.x_dtype, i), c_.x_dtype)));
    return __builtin_bit_cast(std::uint32_t, largest);
  }

  // --- lines of weights ---

  // Where the activations of each line lie.
  void list_offsets() const {
    if (b_.depthwise) {
      for (std::int64_t tap = 0; tap < f_.height * f_.width; ++tap) memory_.offsets[tap] = tap_at(tap);
      return;
    }
    const std::int64_t columns = tile_.line_columns, pixel_lines = b_.pixel / columns;
    for (std::int64_t line = 0; line < b_.lines; ++line) {
      if (b_.window > 0) {
        memory_.offsets[line] = line * columns;
        continue;
      }
      memory_.offsets[line] = tap_at(line / pixel_lines) + line % pixel_lines * columns;
    }
  }

  [[nodiscard]] std::int64_t tap_at(std::int64_t tap) const {
    return tap / f_.width * b_.tap_rows * row_step() + tap % f_.width * c_.dilation_w * pixel_step();
  }

  // Whether kernels can read an image where it lies: it needs no padding beside it or in its pixels, and is int8. Lines
  // of other formats are not whole vectors, beyond which kernels may read.
  [[nodiscard]] bool in_place() const {
    return c_.x_dtype == DType::i8 && c_.x_order == ImageOrder::nhwc && b_.window == 0 && b_.pixel == b_.channels &&
           !b_.depthwise && c_.padding.left == 0 && c_.padding.right == 0 && c_.format == Format::i2 &&
           b_.tap_rows == c_.dilation_h && b_.more_rows == c_.stride_h;
  }
  [[nodiscard]] std::int64_t row_step() const { return in_place() ? p_.x_at.row : b_.staged_width * b_.pixel; }
  [[nodiscard]] std::int64_t pixel_step() const { return in_place() ? p_.x_at.pixel : b_.pixel; }

  // --- staging ---

  // The rows of taps of an output row that meet the image.
  struct Taps {
    std::int64_t first, last;
  };
  [[nodiscard]] Taps taps_of(std::int64_t oy) const {
    const std::int64_t top = oy * c_.stride_h - c_.padding.top;
    const std::int64_t first = top >= 0 ? 0 : ceil_div(-top, c_.dilation_h);
    const std::int64_t last = top >= c_.height ? 0 : ceil_div(c_.height - top, c_.dilation_h);
    return {std::min(first, f_.height), std::max(std::min(first, f_.height), std::min(last, f_.height))};
  }
  // The staged row that a row of taps meets.
  [[nodiscard]] std::int64_t staged_row(std::int64_t output_row, std::int64_t tap) const {
    return output_row * b_.more_rows + tap * b_.tap_rows;
  }

  void stage(Block& b) const {
    b.row_step = row_step();
    b.pixel_step = pixel_step();
    const std::int64_t left = b.ox * c_.stride_w - c_.padding.left;
    const std::int64_t width = (b.width - 1) * c_.stride_w + (f_.width - 1) * c_.dilation_w + 1;
    const bool lies_there = in_place();
    if (lies_there)
      b.staged = element(p_.x, DType::i8,
                         b.image * p_.x_at.image + b.group * b_.channels +
                             (b.oy * c_.stride_h - c_.padding.top) * p_.x_at.row + left * p_.x_at.pixel);
    else
      b.staged = b.scratch.x;
    std::fill_n(b.scratch.staged, b_.rows(), false);
    for (std::int64_t row = 0; row < b.height; ++row) {
      const Taps taps = taps_of(b.oy + row);
      for (std::int64_t tap = taps.first; tap < taps.last; ++tap) {
        const std::int64_t to = staged_row(row, tap);
        if (std::exchange(b.scratch.staged[to], true)) continue;  // another output row needs it, too
        const std::int64_t iy = (b.oy + row) * c_.stride_h - c_.padding.top + tap * c_.dilation_h;
        if (!lies_there) stage_row(b, iy, left, width, to * b_.staged_width);
        if (needs_sums())
          t_.sums(reinterpret_cast<const std::int8_t*>(b.staged) + to * b.row_step, b.pixel_step, b_.pixel, width,
                  b.scratch.pixel_sums + to * b_.staged_width);
      }
    }
    if (b_.floats) return;
    std::fill_n(b.scratch.scales, b.height * b.width, memory_.scales[b.image]);
    if (needs_sums()) sum_windows(b, width);
  }

  [[nodiscard]] bool needs_sums() const { return !b_.floats && !b_.depthwise && b_.window == 0; }
  // The sums of the windows, by which sums of codes are too large: codes are unsigned (weight + code of 0).
  void sum_windows(const Block& b, std::int64_t width) const {
    for (std::int64_t row = 0; row < b.height; ++row) {
      const Taps taps = taps_of(b.oy + row);
      std::int32_t* columns = b.scratch.column_sums;
      std::fill_n(columns, width, 0);
      for (std::int64_t tap = taps.first; tap < taps.last; ++tap) {
        const std::int32_t* from = b.scratch.pixel_sums + staged_row(row, tap) * b_.staged_width;
        for (std::int64_t i = 0; i < width; ++i) columns[i] += from[i];
      }
      for (std::int64_t ox = 0; ox < b.width; ++ox) {
        std::int32_t sum = 0;
        for (std::int64_t tap = 0; tap < f_.width; ++tap) sum += columns[ox * c_.stride_w + tap * c_.dilation_w];
        b.scratch.x_sums[row * b.width + ox] = times(sum, b_.loops->zero);
      }
    }
  }

  // Stages `width` pixels of row iy from column `left` on, which may be outside the image, as pixel number `to`.
  void stage_row(const Block& b, std::int64_t iy, std::int64_t left, std::int64_t width, std::int64_t to) const {
    const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, width),
                       end = std::clamp<std::int64_t>(c_.width - left, begin, width);
    const std::int64_t size = b_.pixel * b_.element;
    std::byte* row = b.scratch.x + to * size;
    const auto clear = [&](std::int64_t first, std::int64_t last) {
      std::memset(row + first * size, 0, static_cast<std::size_t>((last - first) * size));
    };
    clear(0, begin);
    clear(end, width);
    if (begin == end) return;
    if (b_.pixel != b_.channels) clear(begin, end);  // padding of the pixels
    const std::int64_t from = b.image * p_.x_at.image + b.group * b_.channels * p_.x_at.channel + iy * p_.x_at.row +
                              (left + begin) * p_.x_at.pixel;
    std::byte* out = row + begin * size;
    if (c_.x_order == ImageOrder::nchw)
      transpose(b, from, end - begin, out);
    else if (p_.x_at.pixel == b_.pixel && b_.pixel == b_.channels)
      convert(b, from, (end - begin) * b_.pixel, out);
    else
      for (std::int64_t i = 0; i < end - begin; ++i) convert(b, from + i * p_.x_at.pixel, b_.channels, out + i * size);
  }
  // Turns the lines of the channels, from element `from` on, into pixels.
  void transpose(const Block& b, std::int64_t from, std::int64_t pixels, std::byte* out) const {
    const Scratch& s = b.scratch;
    for (std::int64_t channel = 0; channel < b_.channels; ++channel) {
      const std::int64_t at = from + channel * p_.x_at.channel;
      if (b_.floats) {
        widen(b, at, pixels, s.float_line);
        spread(s.float_line, pixels, reinterpret_cast<float*>(out) + channel);
        continue;
      }
      const std::int8_t* line = quantized(b, at, pixels, s.line);
      if (b_.depthwise)
        spread(line, pixels, reinterpret_cast<std::int16_t*>(out) + channel);
      else
        spread(line, pixels, reinterpret_cast<std::int8_t*>(out) + channel);
    }
  }
  template <class From, class To>
  void spread(const From* line, std::int64_t n, To* out) const {
    for (std::int64_t i = 0; i < n; ++i, out += b_.pixel) *out = line[i];
  }
  // Converts neighbouring elements to what is staged.
  void convert(const Block& b, std::int64_t from, std::int64_t n, std::byte* out) const {
    if (b_.floats) return widen(b, from, n, reinterpret_cast<float*>(out));
    auto* bytes = reinterpret_cast<std::int8_t*>(out);
    const std::int8_t* line = quantized(b, from, n, b_.depthwise ? b.scratch.line : bytes);
    if (b_.depthwise)
      std::copy_n(line, n, reinterpret_cast<std::int16_t*>(out));
    else if (line != bytes)
      std::memcpy(bytes, line, static_cast<std::size_t>(n));
  }
  // Neighbouring elements as int8: where they lie, or in `room`.
  const std::int8_t* quantized(const Block& b, std::int64_t from, std::int64_t n, std::int8_t* room) const {
    if (c_.x_dtype == DType::i8) return static_cast<const std::int8_t*>(p_.x) + from;
    const auto [x, dtype] = finite(b, from, n);
    const float s = memory_.scales[b.image];
    // The loop does not clamp: a computed scale leaves nothing to clamp, a given one may.
    if (!c_.scale_given || __builtin_bit_cast(float, t_.tokens.max_abs_bits[source_of(dtype)](x, n)) * s <= 127)
      t_.tokens.quantize[source_of(dtype)](x, n, s, room);
    else
      for (std::int64_t i = 0; i < n; ++i)
        room[i] = static_cast<std::int8_t>(
            std::clamp(std::nearbyint(activation_quantize::read(x, dtype, i) * s), -128.0F, 127.0F));
    return room;
  }
  void widen(const Block& b, std::int64_t from, std::int64_t n, float* out) const {
    const auto [x, dtype] = finite(b, from, n);
    t_.widen[source_of(dtype)](x, n, out);
  }
  // Neighbouring elements, saturated if the problem says so and one is not finite.
  [[nodiscard]] std::pair<const void*, DType> finite(const Block& b, std::int64_t from, std::int64_t n) const {
    const void* x = element(p_.x, c_.x_dtype, from);
    if (c_.non_finite == NonFinite::reject || t_.tokens.max_abs_bits[source_of(c_.x_dtype)](x, n) < kInfinity)
      return {x, c_.x_dtype};
    for (std::int64_t i = 0; i < n; ++i)
      b.scratch.clean[i] = activation_quantize::saturated(activation_quantize::read(x, c_.x_dtype, i), c_.x_dtype);
    return {b.scratch.clean, DType::f32};
  }

  // --- products ---

  // With filters from first * ld on.
  void convolve(Block& b, std::int64_t first, std::int64_t last) const {
    stage(b);
    if (b_.depthwise) {
      for (std::int64_t step = first; step < last; ++step)
        for (std::int64_t row = 0; row < b.height; ++row) {
          if (b_.floats)
            sum_taps_of(depthwise_row(b, reinterpret_cast<const float*>(b.staged), step, row,
                                      reinterpret_cast<float*>(b.scratch.sums)));
          else
            sum_taps_of(depthwise_row(b, reinterpret_cast<const std::int16_t*>(b.staged), step, row, b.scratch.sums));
          write_row(b, step * b_.ld(), row, b.scratch.sums);
        }
      return;
    }
    std::int64_t rows = 0;
    if (b_.floats)
      rows = list_rows(b, reinterpret_cast<const float*>(b.staged), b.scratch.float_windows, b.scratch.float_rows,
                       reinterpret_cast<float*>(b.scratch.sums));
    else
      rows = list_rows(b, reinterpret_cast<const std::int8_t*>(b.staged), b.scratch.windows, b.scratch.rows,
                       b.scratch.sums);
    const std::int64_t all_tiles = p_.order.group_rows / kTileRows;
    for (std::int64_t step = first; step < last; ++step) {
      const std::int64_t tile = step * b_.loops->max_tiles;
      const auto tiles = static_cast<int>(std::min<std::int64_t>(b_.loops->max_tiles, all_tiles - tile));
      if (b_.floats)
        add_floats(b, tile, tiles, rows);
      else
        add_integers(b, tile, tiles, rows);
      for (std::int64_t row = 0; row < b.height; ++row)
        write_row(b, step * b_.ld(), row, b.scratch.sums + row * b.width * b_.ld());
    }
  }
  template <class T, class Sum>
  DepthwiseRow<T, Sum> depthwise_row(const Block& b, const T* staged, std::int64_t step, std::int64_t row,
                                     Sum* sums) const {
    const Taps taps = taps_of(b.oy + row);
    const std::int64_t first = step * b_.ld();
    return {.x = staged + staged_row(row, 0) * b.row_step + first,
            .stride = c_.stride_w * b.pixel_step,
            .pixels = b.width,
            .channels = std::min(b_.ld(), b_.channels - first),
            .offsets = memory_.offsets,
            .first = taps.first * f_.width,
            .last = taps.last * f_.width,
            .w = p_.by_tap + first,
            .w_stride = tap_stride(f_),
            .narrow = f_.height * f_.width * 65536 <= max_summed(c_.format),
            .sums = sums};
  }
  // Where the results of an output row begin in y or in the residual.
  template <class Byte>
  [[nodiscard]] Byte* place(Byte* data, const Image& at, const Block& b, std::int64_t filter, std::int64_t row) const {
    return data + (b.image * at.image + filter * at.channel + (b.oy + row) * at.row + b.ox * at.pixel) * y_size_;
  }

  // The rows of output pixels as the loops take them: each where it lies, or all as one row of gathered windows. Their
  // lines follow with each chunk. Returns their number.
  template <class T, class Sum>
  std::int64_t list_rows(const Block& b, const T* staged, T* windows, RowOfTokens<T, Sum>* rows, Sum* sums) const {
    if (b_.window > 0) {
      for (std::int64_t row = 0; row < b.height; ++row) gather(b, staged, row, windows + row * b.width * b_.window);
      if constexpr (std::is_same_v<T, std::int8_t>) {
        t_.sums(windows, b_.window, b_.lines * tile_.line_columns, b.height * b.width, b.scratch.x_sums);
        for (std::int64_t i = 0; i < b.height * b.width; ++i)
          b.scratch.x_sums[i] = times(b.scratch.x_sums[i], b_.loops->zero);
      }
      rows[0] = {.x = {windows, b_.window}, .tokens = b.height * b.width, .sums = sums};
      return 1;
    }
    for (std::int64_t row = 0; row < b.height; ++row)
      rows[row] = {.x = {staged + staged_row(row, 0) * b.row_step, c_.stride_w * b.pixel_step},
                   .tokens = b.width,
                   .sums = sums + row * b.width * b_.ld()};
    return b.height;
  }
  // Copies the windows of a row's pixels, rows of taps one after the other.
  template <class T>
  void gather(const Block& b, const T* staged, std::int64_t row, T* out) const {
    const Taps taps = taps_of(b.oy + row);
    const std::int64_t tap_row = f_.width * b_.pixel, end = f_.height * tap_row, all = b_.lines * tile_.line_columns;
    const std::int64_t width = b.width, window = b_.window, step = c_.stride_w * b_.pixel, height = f_.height;
    const std::int64_t between = b_.tap_rows * b_.staged_width * b_.pixel;  // rows of taps
    const T* from = staged + staged_row(row, 0) * b_.staged_width * b_.pixel;
    for (std::int64_t ox = 0; ox < width; ++ox, out += window, from += step) {
      if (taps.first > 0) std::fill(out, out + taps.first * tap_row, T{});
      if (c_.dilation_w == 1)
        copy_rows(from, between, tap_row, taps.first, taps.last, out);
      else
        for (std::int64_t tap = taps.first; tap < taps.last; ++tap)
          for (std::int64_t tx = 0; tx < f_.width; ++tx)
            std::copy_n(from + tap * between + tx * c_.dilation_w * b_.pixel, b_.pixel,
                        out + tap * tap_row + tx * b_.pixel);
      if (taps.last < height) std::fill(out + taps.last * tap_row, out + end, T{});
      for (std::int64_t i = end; i < all; ++i) out[i] = T{};
    }
  }
  // Copies rows of taps, n elements each, and up to 15 bytes more, for which there is room: what follows is written
  // afterwards.
  template <class T>
  static void copy_rows(const T* from, std::int64_t between, std::int64_t n, std::int64_t first, std::int64_t last,
                        T* to) {
    const auto steps = ceil_div(n * static_cast<std::int64_t>(sizeof(T)), 16);
    const auto copy = [=]<int kSteps>() {
      for (std::int64_t row = first; row < last; ++row) std::memcpy(to + row * n, from + row * between, 16 * kSteps);
    };
    switch (steps) {
      case 1: return copy.template operator()<1>();
      case 2: return copy.template operator()<2>();
      case 3: return copy.template operator()<3>();
      case 4: return copy.template operator()<4>();
      default:
        for (std::int64_t row = first; row < last; ++row)
          std::memcpy(to + row * n, from + row * between, static_cast<std::size_t>(n) * sizeof(T));
    }
  }
  // Gives each row the lines of a chunk whose taps meet the image.
  template <class T, class Sum>
  void give_lines(const Block& b, std::int64_t chunk, RowOfTokens<T, Sum>* rows, std::int64_t count) const {
    const std::int64_t from = chunk * b_.chunk_lines, lines = lines_of(chunk), tap_lines = b_.lines / f_.height;
    for (std::int64_t row = 0; row < count; ++row) {
      rows[row].first = 0;
      rows[row].last = lines;
      if (b_.window > 0) continue;
      const Taps taps = taps_of(b.oy + row);
      rows[row].first = std::clamp<std::int64_t>(taps.first * tap_lines - from, 0, lines);
      rows[row].last = std::clamp<std::int64_t>(taps.last * tap_lines - from, rows[row].first, lines);
    }
  }
  [[nodiscard]] const std::uint8_t* codes_at(const Block& b, std::int64_t tile, std::int64_t chunk) const {
    const std::int64_t number = b.group * (p_.order.group_rows / kTileRows) + tile;
    return p_.weights->codes + number * tile_.tile_bytes() + chunk * b_.chunk_lines * kLineBytes;
  }
  [[nodiscard]] std::int64_t lines_of(std::int64_t chunk) const {
    return std::min(b_.chunk_lines, b_.lines - chunk * b_.chunk_lines);
  }

  void add_integers(const Block& b, std::int64_t tile, int tiles, std::int64_t rows) const {
    for (std::int64_t chunk = 0; chunk < b_.chunks; ++chunk) {
      give_lines(b, chunk, b.scratch.rows, rows);
      b_.loops->rows({.w = codes_at(b, tile, chunk),
                      .tile_bytes = tile_.tile_bytes(),
                      .tiles = tiles,
                      .lines = lines_of(chunk),
                      .offsets = memory_.offsets + chunk * b_.chunk_lines,
                      .rows = b.scratch.rows,
                      .row_count = rows,
                      .codes = b.scratch.codes,
                      .ld = b_.ld(),
                      .fresh = chunk == 0});
    }
  }
  // Pieces are summed in f32 and added up in f64.
  void add_floats(const Block& b, std::int64_t tile, int tiles, std::int64_t rows) const {
    const std::int64_t pixels = b.height * b.width, width = tiles * kTileRows;
    auto* sums = reinterpret_cast<float*>(b.scratch.sums);
    for (std::int64_t chunk = 0; chunk < b_.chunks; ++chunk) {
      give_lines(b, chunk, b.scratch.float_rows, rows);
      b_.loops->float_rows({.w = codes_at(b, tile, chunk),
                            .tile_bytes = tile_.tile_bytes(),
                            .tiles = tiles,
                            .lines = lines_of(chunk),
                            .offsets = memory_.offsets + chunk * b_.chunk_lines,
                            .rows = b.scratch.float_rows,
                            .row_count = rows,
                            .codes = b.scratch.codes,
                            .ld = b_.ld()});
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
        for (std::int64_t r = 0; r < width; ++r) {
          double& total = b.scratch.totals[pixel * b_.ld() + r];
          const auto sum = static_cast<double>(sums[pixel * b_.ld() + r]);
          total = chunk == 0 ? sum : total + sum;
        }
    }
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
      for (std::int64_t r = 0; r < width; ++r)
        sums[pixel * b_.ld() + r] = static_cast<float>(b.scratch.totals[pixel * b_.ld() + r]);
  }

  // --- results ---

  // The results of an output row with up to ld filters of the group, from `first` on.
  void write_row(const Block& b, std::int64_t first, std::int64_t row, const std::int32_t* sums) const {
    const std::int64_t filters = f_.out_channels / b_.groups, filter = b.group * filters + first;
    const std::int64_t n = std::min(b_.ld(), filters - first);
    const std::int32_t* x_sums = b_.floats || b_.depthwise ? nullptr : b.scratch.x_sums + row * b.width;
    std::byte* y = place(p_.y, p_.y_at, b, filter, row);
    if (c_.y_dtype == DType::i32) return write_sums(sums, x_sums, b.width, n, y);
    const bool tensor = c_.granularity.kind == Granularity::Kind::tensor;
    EpilogueBlock block{
        .n = n,
        .tokens = b.width,
        .ld = b_.ld(),
        .x_sums = x_sums,
        .x_sums_stride = 1,
        .s = b_.floats ? nullptr : b.scratch.scales,
        .w_scales = p_.weights->scales + (tensor ? 0 : b.group * p_.order.group_rows + first),
        .one_w_scale = tensor,
        .bias = p_.bias == nullptr ? nullptr : p_.bias + filter,
        .relu = c_.activation == Activation::relu,
        .squared_relu = c_.activation == Activation::squared_relu,
        .residual = p_.residual == nullptr ? nullptr : place(p_.residual, p_.residual_at, b, filter, row),
        .y = y,
        .residual_stride = p_.residual_at.pixel * y_size_,
        .y_stride = p_.y_at.pixel * y_size_};
    if (c_.y_order == ImageOrder::nhwc) return epilogue(sums, block);
    block.y = b.scratch.y;
    block.y_stride = block.residual_stride = b_.ld() * y_size_;
    if (block.residual != nullptr) {
      copy(block.residual, p_.residual_at.channel * y_size_, y_size_, b.scratch.residual, y_size_, block.y_stride, n,
           b.width);
      block.residual = b.scratch.residual;
    }
    epilogue(sums, block);
    copy(b.scratch.y, y_size_, block.y_stride, y, p_.y_at.channel * y_size_, y_size_, n, b.width);
  }
  void epilogue(const std::int32_t* sums, const EpilogueBlock& block) const {
    const int out = c_.y_dtype == DType::f16 ? kOutF16 : c_.y_dtype == DType::bf16 ? kOutBf16 : kOutF32;
    if (b_.floats)
      t_.float_epilogue[out](reinterpret_cast<const float*>(sums), block);
    else
      t_.epilogue[out](sums, block);
  }
  // Copies [filters][pixels] elements between two orders, whose strides are in bytes.
  void copy(const std::byte* from, std::int64_t from_filter, std::int64_t from_pixel, std::byte* to,
            std::int64_t to_filter, std::int64_t to_pixel, std::int64_t filters, std::int64_t pixels) const {
    const auto copy_elements = [&](auto v) {
      for (std::int64_t f = 0; f < filters; ++f)
        for (std::int64_t i = 0; i < pixels; ++i) {
          std::memcpy(&v, from + f * from_filter + i * from_pixel, sizeof v);
          std::memcpy(to + f * to_filter + i * to_pixel, &v, sizeof v);
        }
    };
    if (y_size_ == 4)
      copy_elements(std::uint32_t{});
    else
      copy_elements(std::uint16_t{});
  }
  void write_sums(const std::int32_t* sums, const std::int32_t* x_sums, std::int64_t pixels, std::int64_t n,
                  std::byte* y) const {
    for (std::int64_t i = 0; i < pixels; ++i)
      for (std::int64_t f = 0; f < n; ++f)
        store_element(y, i * p_.y_at.pixel + f * p_.y_at.channel,
                      take_off(sums[i * b_.ld() + f], x_sums == nullptr ? 0 : x_sums[i]));
  }

  const SimdTable& t_;
  const Params& p_;
  const Conv2d::Problem& c_;
  const FilterShape& f_;
  const Exec& exec_;
  const Blocks& b_;
  const Memory& memory_;
  const Tile16& tile_;
  std::int64_t y_size_;
};

}  // namespace

std::size_t cpu_workspace(const SimdTable& table, const Conv2d::Problem& p, int threads) {
  const auto size = Conv2d::output_size(p);
  if (!size.ok()) return 0;  // facts() refused the problem
  WorkspaceLedger ledger(nullptr);
  const Blocks blocks = Blocks::of(table, p, FilterOrder::of(p.filters, p.format), *size);
  const Memory memory(ledger, blocks, p, p.images, threads);
  return ledger.bytes();
}

Status cpu_run(const SimdTable& table, const Params& p, const Exec& exec) {
  WorkspaceLedger ledger(exec.workspace.data());
  const Blocks blocks = Blocks::of(table, p.problem, p.order, {p.height, p.width});
  const Memory memory(ledger, blocks, p.problem, p.images, exec.threads.count());
  return Driver(table, p, exec, blocks, memory).run();
}

}  // namespace tern::conv2d
