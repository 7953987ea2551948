// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "emulation/common/handle_table.hpp"
#include "emulation/common/work_queue.hpp"
#include "emulation/gaudi/abi/synapse.h"
#include "emulation/gaudi/synapse/device.hpp"

namespace hbmwire::emulation::gaudi {

using Stream = WorkQueue;
using Event = QueueEvent;

/// What synInitialize() makes: one device at most, as in the vendor's library, whose only device id
/// is 0.
class Runtime {
 public:
  static Runtime& instance();

  synStatus initialise();
  synStatus destroy();
  [[nodiscard]] bool initialised();

  /// Takes over the hl-thunk fd.
  synStatus acquire(int fd, synDeviceId& id);
  synStatus release();
  /// The acquired device, or nullptr.
  std::shared_ptr<Device> device();

  HandleTable<synStreamHandle, Stream>& streams() { return streams_; }

  HandleTable<synEventHandle, Event>& events() { return events_; }

 private:
  std::mutex mutex_;
  bool initialised_ = false;
  std::shared_ptr<Device> device_;
  HandleTable<synStreamHandle, Stream> streams_;
  HandleTable<synEventHandle, Event> events_;
};

/// What the fault plan wants of this call.
synStatus injected_status(const char* call);

/// The frame of every entry point: faults, synInitialize() first, and nothing is thrown into C.
template <typename Body>
synStatus entry_point(const char* call, Body body) noexcept {
  try {
    if (const synStatus status = injected_status(call); status != synSuccess) return status;
    Runtime& runtime = Runtime::instance();
    return runtime.initialised() ? body(runtime) : synUninitialized;
  } catch (const std::bad_alloc&) {
    return synOutOfHostMemory;
  } catch (const std::system_error&) {
    return synOutOfResources;  // no thread for a stream
  }
}

/// The same for calls that need an acquired device, with that device; synFail without one.
template <typename Body>
synStatus device_entry_point(const char* call, Body body) noexcept {
  return entry_point(call, [&](Runtime& runtime) {
    const std::shared_ptr<Device> device = runtime.device();
    return device ? body(runtime, device) : synFail;
  });
}

}  // namespace hbmwire::emulation::gaudi
