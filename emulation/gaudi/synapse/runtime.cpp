// SPDX-License-Identifier: MIT
#include "emulation/gaudi/synapse/runtime.hpp"

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "emulation/gaudi/testing_hooks.hpp"

namespace hbmwire::emulation::gaudi {

Runtime& Runtime::instance() {
  // Never destroyed: the kernel takes the card back when the process ends.
  static auto* runtime = new Runtime;
  return *runtime;
}

synStatus Runtime::initialise() {
  const std::lock_guard lock(mutex_);
  if (initialised_ && std::getenv("HABANA_DISABLE_DOUBLE_SYN_INITIALIZE") != nullptr)
    return synAlreadyInitialized;
  initialised_ = true;
  return synSuccess;
}

synStatus Runtime::destroy() {
  release();
  const std::lock_guard lock(mutex_);
  initialised_ = false;
  return synSuccess;
}

bool Runtime::initialised() {
  const std::lock_guard lock(mutex_);
  return initialised_;
}

synStatus Runtime::acquire(int fd, synDeviceId& id) {
  synStatus status = synSuccess;
  std::shared_ptr<Device> device = Device::create(fd, status);
  if (!device) return status;
  const std::lock_guard lock(mutex_);
  if (device_) return synDeviceAlreadyAcquired;
  device_ = std::move(device);
  id = 0;
  return synSuccess;
}

// Ends the streams first, because their jobs use the device's memory. The card is released with the
// last user of the device.
synStatus Runtime::release() {
  std::shared_ptr<Device> device;
  {
    const std::lock_guard lock(mutex_);
    device = std::exchange(device_, nullptr);
  }
  if (!device) return synNoDeviceFound;
  // The streams and events that take_all() returns are destroyed at once.
  streams_.take_all();
  events_.take_all();
  return synSuccess;
}

std::shared_ptr<Device> Runtime::device() {
  const std::lock_guard lock(mutex_);
  return device_;
}

synStatus injected_status(const char* call) {
  switch (hbmwire_gaudi_fault(call)) {
    case 0:
      return synSuccess;
    case EINVAL:
      return synInvalidArgument;
    case ENOMEM:
      return std::string_view(call) == "synDeviceMalloc" ? synOutOfDeviceMemory
                                                         : synOutOfHostMemory;
    case ENODEV:
    case ENXIO:
      return synNoDeviceFound;
    case EBUSY:
      return synBusy;
    case ETIMEDOUT:
      return synTimeout;
    default:
      return synFail;
  }
}

}  // namespace hbmwire::emulation::gaudi
