// tern devices: shows the hardware of this machine.
#include "tern/device.h"

#include <fmt/format.h>

#include "arguments.h"
#include "json.h"
#include "table.h"
#include "units.h"

namespace tern::cli {
namespace {

struct DevicesArguments {
  OutputArguments output;
};

std::vector<std::string> names(Capabilities capabilities) {
  std::vector<std::string> list;
  for (int i = 0; i < kCapabilityCount; ++i)
    if (const auto c = static_cast<Capability>(i); capabilities.has(c)) list.emplace_back(name(c));
  return list;
}

// {0, 1, 2, 3, 8} as "0-3, 8".
std::string ranges(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

// "L1d", "L1i", "L2".
std::string cache_name(const Cache& cache) {
  const char* suffix = cache.type == "data" ? "d" : cache.type == "instruction" ? "i" : "";
  return fmt::format("L{}{}", cache.level, suffix);
}

std::string cache_text(const Cache& cache) {
  return fmt::format("{} x {}, {} B lines, each for {}", cache.count, human_bytes(cache.bytes), cache.line_bytes,
                     counted(cache.shared_by, "thread"));
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(const GpuFacts& gpu) {
  return {{"compute_capability", fmt::format("{}.{}", gpu.compute_major, gpu.compute_minor)},
          {"multiprocessors", gpu.multiprocessors},
          {"l2_bytes", gpu.l2_bytes},
          {"clock_mhz", gpu.clock_mhz},
          {"memory_clock_mhz", gpu.memory_clock_mhz},
          {"driver", gpu.driver},
          {"driver_cuda_version", gpu.driver_version},
          {"runtime_cuda_version", gpu.runtime_version},
          {"pci_bus_id", gpu.pci_bus_id},
          {"uuid", gpu.uuid},
          {"temperature_c", or_null(gpu.temperature_c)},
          {"power_w", or_null(gpu.power_w)},
          {"power_limit_w", or_null(gpu.power_limit_w)},
          {"utilization_percent", or_null(gpu.utilization_percent)},
          {"memory_utilization_percent", or_null(gpu.memory_utilization_percent)},
          {"clock_now_mhz", or_null(gpu.clock_now_mhz)},
          {"memory_clock_now_mhz", or_null(gpu.memory_clock_now_mhz)},
          {"ecc_corrected", or_null(gpu.ecc_corrected)},
          {"ecc_uncorrected", or_null(gpu.ecc_uncorrected)}};
}

Json to_json(const Device& device) {
  Json caches = Json::array();
  for (const Cache& c : device.caches)
    caches.push_back({{"name", cache_name(c)},
                      {"level", c.level},
                      {"type", c.type},
                      {"bytes", c.bytes},
                      {"line_bytes", c.line_bytes},
                      {"shared_by", c.shared_by},
                      {"count", c.count}});
  Json nodes = Json::array();
  for (const NumaNode& n : device.numa_nodes)
    nodes.push_back({{"id", n.id}, {"memory_bytes", n.memory_bytes}, {"cpus", n.cpus}});
  Json json = {
      {"id", name(device.id)},
      {"name", device.name},
      {"architecture", device.architecture},
      {"cpu", device.cpu.vendor.empty()
                  ? Json(nullptr)
                  : Json{{"vendor", device.cpu.vendor}, {"family", device.cpu.family}, {"model", device.cpu.model}}},
      {"capabilities", names(device.capabilities)},
      {"unusable", device.unusable.empty() ? Json(nullptr) : Json(device.unusable)},
      {"memory_total_bytes", device.memory_total_bytes},
      {"memory_available_bytes", device.memory_available_bytes},
      {"caches", std::move(caches)}};
  if (device.gpu) {
    json["gpu"] = to_json(*device.gpu);
    return json;
  }
  json["sockets"] = device.sockets;
  json["cores"] = device.cores;
  json["hardware_threads"] = device.hardware_threads;
  json["usable_threads"] = device.usable_threads;
  json["numa_nodes"] = std::move(nodes);
  return json;
}

// Adds the facts about a GPU, in the order in which people ask for them.
void add_gpu(Table& facts, const Device& device) {
  const GpuFacts& gpu = *device.gpu;
  if (!device.unusable.empty()) facts.add({"cannot be used", device.unusable});
  facts.add({"compute", fmt::format("capability {}.{}, {} multiprocessors, {} MHz, memory {} MHz", gpu.compute_major,
                                    gpu.compute_minor, gpu.multiprocessors, gpu.clock_mhz, gpu.memory_clock_mhz)});
  facts.add({"L2", human_bytes(gpu.l2_bytes)});
  facts.add({"driver", fmt::format("{} for CUDA {}, runtime {}", gpu.driver.empty() ? "unknown" : gpu.driver,
                                   gpu.driver_version, gpu.runtime_version)});
  std::vector<std::string> now;
  if (gpu.temperature_c) now.push_back(fmt::format("{} C", *gpu.temperature_c));
  if (gpu.power_w) now.push_back(fmt::format("{:.0f} W", *gpu.power_w));
  if (gpu.power_limit_w) now.push_back(fmt::format("limit {:.0f} W", *gpu.power_limit_w));
  if (gpu.utilization_percent) now.push_back(fmt::format("{} % busy", *gpu.utilization_percent));
  if (gpu.clock_now_mhz) now.push_back(fmt::format("{} MHz", *gpu.clock_now_mhz));
  if (!now.empty()) facts.add({"now", fmt::format("{}", fmt::join(now, ", "))});
  if (gpu.ecc_corrected && gpu.ecc_uncorrected)
    facts.add({"ECC errors", fmt::format("{} corrected, {} not", *gpu.ecc_corrected, *gpu.ecc_uncorrected)});
  facts.add({"address", fmt::format("{} {}", gpu.pci_bus_id, gpu.uuid)});
}

void print_text(const Device& device) {
  const auto capabilities = names(device.capabilities);
  Table facts({}, 2);
  facts.add({"architecture", device.cpu.vendor.empty()
                                 ? device.architecture
                                 : fmt::format("{}, {} family {} model {}", device.architecture, device.cpu.vendor,
                                               device.cpu.family, device.cpu.model)});
  if (device.gpu) {
    add_gpu(facts, device);
    facts.add({"capabilities", capabilities.empty() ? "none" : fmt::format("{}", fmt::join(capabilities, ", "))});
    facts.add({"memory", fmt::format("{}, {} available", human_bytes(device.memory_total_bytes),
                                     human_bytes(device.memory_available_bytes))});
    fmt::print("{}: {}\n{}", name(device.id), device.name, facts.str());
    return;
  }
  facts.add({"processors",
             fmt::format("{}, {}, {}, {} usable here", counted(device.sockets, "socket"), counted(device.cores, "core"),
                         counted(device.hardware_threads, "hardware thread"), device.usable_threads)});
  facts.add({"capabilities", capabilities.empty() ? "none" : fmt::format("{}", fmt::join(capabilities, ", "))});
  for (const Cache& cache : device.caches) facts.add({cache_name(cache), cache_text(cache)});
  facts.add({"memory", fmt::format("{}, {} available", human_bytes(device.memory_total_bytes),
                                   human_bytes(device.memory_available_bytes))});
  for (const NumaNode& node : device.numa_nodes)
    facts.add({fmt::format("NUMA node {}", node.id),
               fmt::format("{}, cpus {}", human_bytes(node.memory_bytes), ranges(node.cpus))});
  fmt::print("{}: {}\n{}", name(device.id), device.name, facts.str());
}

Result<int> run(const DevicesArguments& arguments) {
  const Result<Inventory> inventory = devices();
  if (!inventory.ok()) return inventory.error();
  if (arguments.output.json) {
    Json list = Json::array();
    for (const Device& device : inventory->devices) list.push_back(to_json(device));
    print_json({{"devices", std::move(list)}, {"notes", inventory->notes}});
    return 0;
  }
  for (const Device& device : inventory->devices) print_text(device);
  Table notes({}, 2);
  for (const std::string& note : inventory->notes) notes.add({"-", note});
  if (!notes.empty()) fmt::print("\nNotes:\n{}", notes.str());
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<DevicesArguments>();
  CLI::App* command = app.add_subcommand("devices", "Show the devices of this machine and what they can do");
  add_output_arguments(*command, arguments->output);
  add_examples(*command, {"tern devices", "tern devices --json"});
  on_run(*command, session, std::move(arguments), &run);
}

}  // namespace tern::cli
