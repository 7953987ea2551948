// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::memory {

/// The open domains of one type, by the key with which each was opened. Thread-safe.
template <class Key>
class OpenDomains {
 public:
  /// The open domain for this key, or else the result of `open()`. One thread at a time opens.
  template <class Open>
  Result<std::shared_ptr<MemoryDomain>> get(const Key& key, Open open) {
    const std::scoped_lock lock(opening_);
    if (auto domain = lookup(key)) return domain;
    HBMWIRE_TRY_ASSIGN(std::shared_ptr<MemoryDomain> domain, open());
    const std::scoped_lock table(mutex_);
    domains_[key] = domain;
    return domain;
  }

  /// All domains that are open now.
  [[nodiscard]] std::vector<std::shared_ptr<MemoryDomain>> all() {
    std::vector<std::shared_ptr<MemoryDomain>> open;
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, domain] : domains_) {
      if (auto alive = domain.lock()) open.push_back(std::move(alive));
    }
    return open;
  }

 private:
  std::shared_ptr<MemoryDomain> lookup(const Key& key) {
    const std::scoped_lock lock(mutex_);
    const auto found = domains_.find(key);
    return found == domains_.end() ? nullptr : found->second.lock();
  }

  std::mutex opening_;  // held while a domain is opened; look-ups never wait for it
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<MemoryDomain>> domains_;
};

}  // namespace hbmwire::memory
