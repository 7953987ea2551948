// SPDX-License-Identifier: MIT
#include "emulation/cuda/testing_hooks.hpp"

#include <string_view>

#include "emulation/common/faults.hpp"
#include "emulation/cuda/runtime.hpp"

using hbmwire::emulation::FaultPlan;
using namespace hbmwire::emulation::cuda;

namespace {

template <typename Count>
unsigned long count_in_memory(Device& device, Count count) {
  const std::lock_guard lock(device.mutex);
  return device.memory ? count(*device.memory) : 0;
}

unsigned long count_contexts(Runtime& runtime, int device, bool streams) {
  unsigned long sum = 0;
  for (const auto& [handle, context] : runtime.all_contexts()) {
    const std::lock_guard lock(context->mutex);
    if (context->device == device) sum += streams ? context->streams.size() : 1;
  }
  return sum;
}

unsigned long count_in_process(Runtime& runtime, std::string_view kind) {
  if (kind == "host_mapping") return runtime.addresses().count_pinned();
  if (kind == "reservation") return runtime.addresses().count_reservations();
  if (kind == "event") return runtime.events().all().size();
  if (kind == "current") return Runtime::stack().size();
  return 0;
}

}  // namespace

long hbmwire_cuda_fail_nth_call(long n, int error_number) {
  return static_cast<long>(FaultPlan::of_this_process().fail_nth_call(n, error_number));
}

unsigned long hbmwire_cuda_live_objects(unsigned device, const char* kind) {
  Runtime& runtime = Runtime::instance();
  const auto ordinal = static_cast<int>(device);
  Device* const found = runtime.device(ordinal);
  if (found == nullptr) return 0;
  const std::string_view wanted(kind);
  auto& addresses = runtime.addresses();
  if (wanted == "allocation") return addresses.count(Origin::alloc, ordinal);
  if (wanted == "host") return addresses.count(Origin::host, ordinal);
  if (wanted == "managed") return addresses.count(Origin::managed, ordinal);
  if (wanted == "mapping") return addresses.count(Origin::mapped, ordinal);
  if (wanted == "physical")
    return count_in_memory(*found, [](auto& memory) { return memory.own_ranges(); });
  if (wanted == "export")
    return count_in_memory(*found, [](auto& memory) { return memory.own_exports(); });
  if (wanted == "share")
    return count_in_memory(*found, [](auto& memory) { return memory.own_shares(); });
  if (wanted == "ipc")
    return count_in_memory(*found, [](auto& memory) { return memory.own_attachments(); });
  if (wanted == "context") return count_contexts(runtime, ordinal, false);
  if (wanted == "stream") return count_contexts(runtime, ordinal, true);
  return device == 0 ? count_in_process(runtime, wanted) : 0;
}
