// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>
#include <utility>

#include "hbmwire/context.hpp"

#include "base/log.hpp"
#include "memory/catalog.hpp"
#include "topology/pci_tree.hpp"

namespace hbmwire::detail {

struct ContextState {
  ContextState(const ContextOptions& options, const Settings& settings_of)
      : settings(settings_of), memory(options.memory, settings) {}

  const topology::PciTree& pci() {
    std::call_once(pci_looked_at_, [&] {
      if (auto tree = topology::PciTree::discover()) {
        pci_ = std::move(*tree);
      } else {
        log_line(LogLevel::warn, describe(tree.error()));
      }
    });
    return pci_;
  }

  Settings settings;
  memory::Catalog memory;

 private:
  std::once_flag pci_looked_at_;
  topology::PciTree pci_;
};

}  // namespace hbmwire::detail
