// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace hbmwire::emulation {

/// Maps opaque handles of a vendor's interface to objects. A handle is a number that is never
/// reused, so that an old one is refused instead of being dereferenced. Thread-safe.
template <typename Handle, typename Object>
class HandleTable {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    next_ += 16;  // aligned, as a pointer to an object would be
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
  std::uint64_t next_ = 0x5e'0000;  // does not look like a pointer
  std::map<std::uint64_t, std::shared_ptr<Object>> objects_;
};

}  // namespace hbmwire::emulation
