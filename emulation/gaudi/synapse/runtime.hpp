// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "emulation/gaudi/abi/synapse.h"
#include "emulation/gaudi/synapse/device.hpp"
#include "emulation/gaudi/synapse/stream.hpp"

namespace hbmwire::emulation::gaudi {

/// Opaque handles of the interface, and what they stand for. A handle is a number that is never
/// used twice, so that a stale one is refused instead of dereferenced. Thread-safe.
template <typename Handle, typename Object>
class HandleTable {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    next_ += 16;
    objects_.emplace(next_, std::move(object));
    return std::bit_cast<Handle>(next_);
  }

  std::shared_ptr<Object> find(Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(std::bit_cast<std::uint64_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    auto node = objects_.extract(std::bit_cast<std::uint64_t>(handle));
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  std::map<std::uint64_t, std::shared_ptr<Object>> take_all() {
    const std::lock_guard lock(mutex_);
    return std::exchange(objects_, {});
  }

  std::map<std::uint64_t, std::shared_ptr<Object>> all() {
    const std::lock_guard lock(mutex_);
    return objects_;
  }

 private:
  std::mutex mutex_;
  std::uint64_t next_ = 0x5e'0000;  // looks like no pointer
  std::map<std::uint64_t, std::shared_ptr<Object>> objects_;
};

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
