// SPDX-License-Identifier: MIT
#include "emulation/cuda/runtime.hpp"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "emulation/common/faults.hpp"

namespace hbmwire::emulation::cuda {
namespace {

std::atomic<bool> g_forked{false};

/// Applies CUDA_VISIBLE_DEVICES: a list of ordinals, which ends at the first invalid one. If it is
/// not set, all GPUs are visible.
std::vector<Gpu> visible(std::vector<Gpu> all) {
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) return all;
  std::vector<Gpu> chosen;
  for (const char* at = text; *at != '\0';) {
    char* end = nullptr;
    const unsigned long index = std::strtoul(at, &end, 10);
    const auto found = std::ranges::find(all, index, &Gpu::index);
    if (end == at || found == all.end()) break;
    chosen.push_back(*found);
    if (*end != ',') break;
    at = end + 1;
  }
  return chosen;
}

CUresult result_of(int error_number) {
  switch (error_number) {
    case 0:
      return CUDA_SUCCESS;
    case EINVAL:
      return CUDA_ERROR_INVALID_VALUE;
    case ENOMEM:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case ENODEV:
    case ENXIO:
      return CUDA_ERROR_NO_DEVICE;
    case EPERM:
    case EACCES:
      return CUDA_ERROR_NOT_PERMITTED;
    case EOPNOTSUPP:
      return CUDA_ERROR_NOT_SUPPORTED;
    case ETIMEDOUT:
      return CUDA_ERROR_TIMEOUT;
    default:
      return CUDA_ERROR_UNKNOWN;
  }
}

}  // namespace

CUresult injected_result(const char* call) {
  return result_of(FaultPlan::of_this_process().fails(call));
}

CUresult injected_poll(const char* call) {
  return result_of(FaultPlan::of_this_process().on_data_path_call(call).error_number);
}

Runtime& Runtime::instance() {
  static auto* const kRuntime = new Runtime;
  return *kRuntime;
}

Runtime::Runtime() {
  pthread_atfork(nullptr, nullptr, [] {
    g_forked.store(true);
    instance().initialised_.store(false);
  });
}

CUresult Runtime::initialise() {
  const std::lock_guard lock(mutex_);
  if (g_forked.load()) return CUDA_ERROR_NOT_INITIALIZED;
  if (initialised_.load()) return CUDA_SUCCESS;
  auto all = list_gpus("cuda");
  auto gpus = visible(all);
  if (gpus.empty()) return CUDA_ERROR_NO_DEVICE;
  for (auto& gpu : all) {
    if (std::ranges::find(gpus, gpu.index, &Gpu::index) == gpus.end())
      unseen_.push_back(std::make_unique<Device>(std::move(gpu)));
  }
  for (auto& gpu : gpus) devices_.push_back(std::make_unique<Device>(std::move(gpu)));
  initialised_.store(true, std::memory_order_release);  // pairs with initialised()
  return CUDA_SUCCESS;
}

Device* Runtime::device(int ordinal) {
  if (ordinal < 0 || ordinal >= device_count()) return nullptr;
  return devices_[static_cast<std::size_t>(ordinal)].get();
}

Device* Runtime::device_of_node(unsigned index, int& ordinal) {
  const auto same = [index](const auto& device) { return device->gpu.index == index; };
  if (const auto seen = std::ranges::find_if(devices_, same); seen != devices_.end()) {
    ordinal = static_cast<int>(seen - devices_.begin());
    return seen->get();
  }
  const auto unseen = std::ranges::find_if(unseen_, same);
  return unseen == unseen_.end() ? nullptr : unseen->get();
}

GpuMemory* memory_of(Device& device) {
  const std::lock_guard lock(device.mutex);
  if (!device.memory) device.memory = GpuMemory::open(device.gpu.directory);
  return device.memory.get();
}

std::vector<CUcontext>& Runtime::stack() {
  thread_local std::vector<CUcontext> contexts;
  return contexts;
}

std::shared_ptr<Context> Runtime::current() {
  const auto& contexts = stack();
  return contexts.empty() ? nullptr : context(contexts.back());
}

/// The device's mutex is held.
CUresult Runtime::make_context(Device& device, unsigned flags, std::shared_ptr<Context>& context) {
  if (!device.memory) device.memory = GpuMemory::open(device.gpu.directory);
  if (!device.memory) return CUDA_ERROR_OPERATING_SYSTEM;
  context = std::make_shared<Context>();
  const auto found = std::ranges::find_if(
      devices_, [&](const auto& candidate) { return candidate.get() == &device; });
  context->device = static_cast<int>(found - devices_.begin());
  context->flags = flags;
  context->handle = contexts_.add(context);
  return CUDA_SUCCESS;
}

CUresult Runtime::retain_primary(int ordinal, CUcontext& handle) {
  Device* const found = device(ordinal);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(found->mutex);
  if (!found->primary) {
    const CUresult made = make_context(*found, 0, found->primary);
    if (made != CUDA_SUCCESS) return made;
    found->primary->primary = true;
  }
  ++found->retained;
  handle = found->primary->handle;
  return CUDA_SUCCESS;
}

CUresult Runtime::release_primary(int ordinal) {
  Device* const found = device(ordinal);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::shared_ptr<Context> last;
  {
    const std::lock_guard lock(found->mutex);
    if (found->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--found->retained == 0) last = std::move(found->primary);
  }
  if (last) take_down(last);
  return CUDA_SUCCESS;
}

CUresult Runtime::create_context(int ordinal, unsigned flags, CUcontext& handle) {
  Device* const found = device(ordinal);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(found->mutex);
  std::shared_ptr<Context> made;
  const CUresult result = make_context(*found, flags, made);
  if (result == CUDA_SUCCESS) handle = made->handle;
  return result;
}

CUresult Runtime::destroy_context(CUcontext handle) {
  const auto found = context(handle);
  if (!found || found->primary) return CUDA_ERROR_INVALID_CONTEXT;
  take_down(found);
  auto& contexts = stack();
  if (!contexts.empty() && contexts.back() == handle) contexts.pop_back();
  return CUDA_SUCCESS;
}

/// Streams end before the memory that they use is freed.
void Runtime::take_down(const std::shared_ptr<Context>& context) {
  contexts_.remove(context->handle);
  std::map<CUstream, std::shared_ptr<Stream>> streams;
  std::shared_ptr<Stream> default_stream;
  {
    const std::lock_guard lock(context->mutex);
    streams = std::exchange(context->streams, {});
    default_stream = std::exchange(context->default_stream, nullptr);
  }
  streams.clear();
  default_stream.reset();
  addresses_.free_all_of(context->handle);
}

CUstream Runtime::add_stream(Context& context, std::shared_ptr<Stream> stream) {
  const auto handle = std::bit_cast<CUstream>(next_stream_.fetch_add(16));
  const std::lock_guard lock(context.mutex);
  context.streams.emplace(handle, std::move(stream));
  return handle;
}

}  // namespace hbmwire::emulation::cuda
