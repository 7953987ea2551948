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

/// The state that synInitialize() creates. It has at most one device, whose id is 0, as in the
/// vendor's library.
class Runtime {
 public:
  static Runtime& instance();

  synStatus initialise();
  synStatus destroy();
  [[nodiscard]] bool initialised();

  /// Takes ownership of the hl-thunk fd.
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

/// The error that the fault plan wants for this call.
synStatus injected_status(const char* call);

/// Wraps every entry point: applies faults, requires synInitialize(), and lets no exception reach C
/// code.
template <typename Body>
synStatus entry_point(const char* call, Body body) noexcept {
  try {
    if (const synStatus status = injected_status(call); status != synSuccess) return status;
    Runtime& runtime = Runtime::instance();
    return runtime.initialised() ? body(runtime) : synUninitialized;
  } catch (const std::bad_alloc&) {
    return synOutOfHostMemory;
  } catch (const std::system_error&) {
    return synOutOfResources;  // a stream's thread could not be started
  }
}

/// As entry_point(), for calls that need an acquired device. Passes the device on; returns synFail
/// without one.
template <typename Body>
synStatus device_entry_point(const char* call, Body body) noexcept {
  return entry_point(call, [&](Runtime& runtime) {
    const std::shared_ptr<Device> device = runtime.device();
    return device ? body(runtime, device) : synFail;
  });
}

}  // namespace hbmwire::emulation::gaudi
