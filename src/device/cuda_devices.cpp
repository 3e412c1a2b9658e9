// Lists the GPUs of this machine: what the runtime reports about each, and why one cannot be used.
#include <cuda_runtime_api.h>

#include "base/errors.h"
#include "device/cuda.h"
#include "device/isa.h"
#include "device/nvml.h"

namespace tern::cuda {
namespace {

constexpr int kOldest = 75;  // the lowest compute capability that CUDA 13 builds for

std::string version(int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }

int attribute(cudaDeviceAttr what, int index) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, what, index) == cudaSuccess ? value : 0;
}

// The number of GPUs, or why they cannot be counted.
Result<int> count() {
  int driver = 0, runtime = 0, devices = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    (void)cudaGetLastError();
    return error(
        Code::gpu_not_available, "cuda",
        "no NVIDIA driver is installed, and CUDA {} needs one; install it until nvidia-smi shows the GPU, or use "
        "the device cpu",
        version(runtime));
  }
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code == cudaSuccess && devices > 0) return devices;
  (void)cudaGetLastError();
  if (code == cudaErrorInsufficientDriver)
    return error(Code::gpu_not_available, "cuda",
                 "the NVIDIA driver is for CUDA {}, this build needs {} or newer: update the driver", version(driver),
                 version(runtime));
  if (code == cudaSuccess || code == cudaErrorNoDevice)
    return error(Code::gpu_not_available, "cuda",
                 "the driver shows no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES");
  return error(Code::gpu_not_available, "cuda", "the driver does not start: {} ({}); does nvidia-smi run?",
               cudaGetErrorString(code), cudaGetErrorName(code));
}

Device describe(int index) {
  Device device{.id = {DeviceKind::cuda, index}};
  cudaDeviceProp properties{};
  if (const cudaError_t code = cudaGetDeviceProperties(&properties, index); code != cudaSuccess) {
    (void)cudaGetLastError();
    device.name = "a GPU that does not answer";
    device.unusable = fmt::format("it does not answer: {} ({})", cudaGetErrorString(code), cudaGetErrorName(code));
    device.gpu.emplace();
    return device;
  }
  GpuFacts facts{.compute_major = properties.major,
                 .compute_minor = properties.minor,
                 .multiprocessors = properties.multiProcessorCount,
                 .l2_bytes = static_cast<std::size_t>(properties.l2CacheSize),
                 .clock_mhz = attribute(cudaDevAttrClockRate, index) / 1000,
                 .memory_clock_mhz = attribute(cudaDevAttrMemoryClockRate, index) / 1000};
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  facts.driver_version = version(driver);
  facts.runtime_version = version(runtime);
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, index) == cudaSuccess) facts.pci_bus_id = bus;
  device.name = properties.name;
  device.architecture = fmt::format("sm_{}{}", properties.major, properties.minor);
  device.capabilities = cuda_capabilities(properties.major, properties.minor);
  device.memory_total_bytes = properties.totalGlobalMem;
  device.caches = {{.level = 2,
                    .type = "unified",
                    .bytes = facts.l2_bytes,
                    .line_bytes = 128,
                    .shared_by = properties.multiProcessorCount}};
  if (properties.major * 10 + properties.minor < kOldest)
    device.unusable = fmt::format("its compute capability is {}.{}, this build needs 7.5 or newer", properties.major,
                                  properties.minor);
  device.gpu = std::move(facts);
  return device;
}

}  // namespace

void add_devices(Inventory& inventory) {
  const auto devices = count();
  if (!devices.ok()) {
    inventory.notes.push_back("NVIDIA GPUs: " + devices.error().message);
    return;
  }
  for (int i = 0; i < *devices; ++i) {
    Device device = describe(i);
    if (device.unusable.empty()) {
      const CurrentDevice current(i);
      const auto bytes = current.status().ok() ? memory_bytes() : Result<MemoryBytes>(MemoryBytes{});
      if (bytes.ok())
        device.memory_available_bytes = bytes->free;
      else
        device.unusable = bytes.error().message;
    }
    if (const std::string why = add_sensors(device.gpu->pci_bus_id, *device.gpu); !why.empty())
      inventory.notes.push_back(fmt::format("{}: no sensors: {}", name(device.id), why));
    if (!device.unusable.empty())
      inventory.notes.push_back(fmt::format("{} cannot be used: {}", name(device.id), device.unusable));
    inventory.devices.push_back(std::move(device));
  }
}

Result<Device> usable_device(int index) {
  TERN_ASSIGN(devices, count());
  if (index < 0 || index >= devices)
    return error(Code::gpu_not_available, "cuda",
                 "there is no cuda:{}: this machine has {} GPU{}, numbered from 0; `tern devices` lists them", index,
                 devices, devices == 1 ? "" : "s");
  Device device = describe(index);
  if (!device.unusable.empty())
    return error(Code::gpu_not_available, "cuda", "cuda:{} cannot be used: {}", index, device.unusable);
  (void)add_sensors(device.gpu->pci_bus_id, *device.gpu);
  return device;
}

}  // namespace tern::cuda
