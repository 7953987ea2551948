// SPDX-License-Identifier: MIT
#include "owned_memory.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "hbmwire/memory_domain.hpp"

namespace hbmwire::python {

namespace {

/// Owners that wait for drop_owners().
struct Dropped {
  std::mutex mutex;
  std::vector<PyObject*> owners;
  std::atomic<bool> has_any{false};  // only a hint, so that callers need not lock the mutex
};

Dropped& dropped() {
  static auto* const all = new Dropped;  // outlives every static object
  return *all;
}

void drop_later(PyObject* owner) noexcept {
  Dropped& all = dropped();
  {
    const std::lock_guard lock(all.mutex);
    all.owners.push_back(owner);
    all.has_any.store(true, std::memory_order_release);
  }
  // Py_AddPendingCall() fails if many calls wait already; those will do the work.
  const auto drop = [](void* /*nothing*/) {
    drop_owners();
    return 0;
  };
  if (Py_IsInitialized() != 0) Py_AddPendingCall(drop, nullptr);
}

}  // namespace

struct OwnedMemory::Held {
  std::optional<Allocation> borrowed;
  PyObject* owner;

  explicit Held(PyObject* owner_of) noexcept : owner(owner_of) {}

  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  ~Held() {
    borrowed.reset();
    drop_later(owner);
  }
};

OwnedMemory::OwnedMemory(pybind11::object owner)
    : held_(std::make_shared<Held>(owner.release().ptr())) {}

pybind11::handle OwnedMemory::owner() const noexcept { return held_->owner; }

Allocation OwnedMemory::keep_with(const Allocation& borrowed) const {
  held_->borrowed = borrowed;
  // Everything that keeps the domain keeps the owner.
  return Allocation::borrowed(std::shared_ptr<MemoryDomain>(held_, &borrowed.domain()),
                              borrowed.address(), borrowed.size_bytes());
}

void drop_owners() noexcept {
  Dropped& all = dropped();
  if (!all.has_any.load(std::memory_order_acquire)) return;
  std::vector<PyObject*> owners;
  {
    const std::lock_guard lock(all.mutex);
    owners.swap(all.owners);
    all.has_any.store(false, std::memory_order_release);
  }
  const pybind11::error_scope pending;  // the caller may be raising an exception
  for (PyObject* const owner : owners) Py_DECREF(owner);
}

}  // namespace hbmwire::python
