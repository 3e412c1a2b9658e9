// Reads a mapped file before the work on it, to show progress and to time computing alone.
#include "mapped_input.h"

#include "stopwatch.h"

namespace tern::cli {
namespace {

constexpr std::size_t kPageBytes = 4096;                  // the smallest page size of the CPUs we know
constexpr std::size_t kStepBytes = std::size_t{4} << 20;  // between two updates of the bar

}  // namespace

std::size_t dense_bytes(const ConstTensorView& view) {
  const Result<std::int64_t> elements = element_count(view.shape);
  return elements.ok() ? static_cast<std::size_t>(*elements) * size_of(view.dtype) : 0;
}

std::optional<double> read_ahead(const ConstTensorView& view, std::size_t available_bytes, ProgressBar& bar) {
  const std::size_t bytes = dense_bytes(view);
  // Half, because the output and other programs want memory too.
  if (bytes > available_bytes / 2) return std::nullopt;
  const Stopwatch watch;
  bar.phase("reading");
  const auto* data = static_cast<const volatile std::byte*>(view.data);
  for (std::size_t i = 0; i < bytes; i += kPageBytes) {
    static_cast<void>(data[i]);
    if (i % kStepBytes == 0) bar.update(i, bytes);
  }
  bar.update(bytes, bytes);
  return watch.seconds();
}

}  // namespace tern::cli
