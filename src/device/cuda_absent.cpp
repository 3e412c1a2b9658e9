// Builds without CUDA: there are no GPUs, and every call returns an error that says so.
#include "base/errors.h"
#include "device/cuda.h"
#include "device/cuda_place.h"

namespace tern::cuda {
namespace {

Error absent() {
  return error(Code::gpu_not_available, "cuda",
               "this build has no CUDA; build it with TERN_CUDA=ON, or use the device cpu");
}

}  // namespace

void add_devices(Inventory& inventory) { inventory.notes.emplace_back("NVIDIA GPUs: this build has no CUDA"); }
Result<Device> usable_device(int) { return absent(); }
CurrentDevice::CurrentDevice(int) : status_(absent()) {}
CurrentDevice::~CurrentDevice() = default;
Status launched(int) { return absent(); }
Result<Stream*> create_stream() { return absent(); }
void destroy(Stream*) {}
Status synchronize(Stream*) { return absent(); }
Status synchronize_device() { return absent(); }
Result<bool> capturing(Stream*) { return absent(); }
Result<Event*> create_event(bool) { return absent(); }
void destroy(Event*) {}
Status record(Event*, Stream*) { return absent(); }
Status wait(Stream*, Event*) { return absent(); }
Status synchronize(Event*) { return absent(); }
Result<double> milliseconds(Event*, Event*) { return absent(); }
Result<Graph*> capture(Stream*, const std::function<Status()>&) { return absent(); }
Status replay(Graph*, Stream*) { return absent(); }
void destroy(Graph*) {}
Status copy(void*, const void*, std::size_t, Stream*) { return absent(); }
Status copy_rows(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, Stream*) { return absent(); }
Status fill(void*, int, std::size_t, Stream*) { return absent(); }
Result<Pool*> create_pool(int, std::size_t) { return absent(); }
void destroy(Pool*) {}
Result<void*> allocate(Pool*, std::size_t, Stream*) { return absent(); }
Status deallocate(void*, Stream*) { return absent(); }
Status trim(Pool*, std::size_t) { return absent(); }
Result<PoolInfo> info(Pool*) { return absent(); }
Status reset_peaks(Pool*) { return absent(); }
Result<void*> allocate_plain(std::size_t) { return absent(); }
Status deallocate_plain(void*) { return absent(); }
Result<MemoryBytes> memory_bytes() { return absent(); }
Result<void*> allocate_pinned(std::size_t) { return absent(); }
Status deallocate_pinned(void*) { return absent(); }
bool pinned(const void*) { return false; }
std::optional<DeviceId> place_of(const void*) { return DeviceId{}; }

}  // namespace tern::cuda
