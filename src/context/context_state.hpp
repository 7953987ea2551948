// SPDX-License-Identifier: MIT
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/settings.hpp"

#include "base/internals.hpp"
#include "base/log.hpp"
#include "counters/context_counters.hpp"
#include "memory/catalog.hpp"
#include "topology/pci_tree.hpp"

namespace hbmwire::detail {

/// The state behind a Context, which its NICs, domains and caches share.
struct ContextState {
  ContextState(const ContextOptions& options_of, const Settings& settings_of)
      : settings(settings_of),
        options(completed(options_of, settings_of)),
        memory(options.memory, settings, options.default_device) {}

  /// The context's NICs. Opened on the first call.
  Result<std::vector<Nic>> open_nics() {
    const std::scoped_lock lock(nics_mutex_);
    if (nics_.empty()) {
      std::vector<Nic> nics;
      std::vector<std::string> names = options.nics;
      if (names.size() == 1 && names.front() == "none") {
        return tl::make_unexpected(make_error(Errc::not_found, Stage::probe,
                                              "no NIC is wanted (nics: none)", {},
                                              Hint::no_rdma_device));
      }
      if (names.empty()) names.emplace_back();  // empty: the first NIC with an active port
      for (const std::string& name : names) {
        HBMWIRE_TRY_ASSIGN(Nic nic, Nic::open(name, options.gid_index));
        nics.push_back(std::move(nic));
      }
      nics_ = std::move(nics);
    }
    return nics_;
  }

  /// Takes from the settings whatever the program leaves open.
  static ContextOptions completed(ContextOptions options, const Settings& settings) {
    if (options.nics.empty()) options.nics = settings.endpoint.nics;
    if (options.default_device.empty()) options.default_device = settings.memory.default_device;
    if (!options.gid_index) options.gid_index = settings.endpoint.gid_index;
    if (!options.paths.require) options.paths.require = settings.endpoint.paths.require;
    if (options.paths.allow.empty()) options.paths.allow = settings.endpoint.paths.allow;
    return options;
  }

  const topology::PciTree& pci() {
    std::call_once(pci_looked_at_, [&] {
      if (auto tree = topology::PciTree::discover()) {
        pci_ = std::move(*tree);
      } else {
        log_line(LogLevel::warn, [&] { return describe(tree.error()); });
      }
    });
    return pci_;
  }

  Settings settings;
  ContextOptions options;
  counters::ContextCounters counting;
  memory::Catalog memory;

 private:
  std::mutex nics_mutex_;
  std::vector<Nic> nics_;
  std::once_flag pci_looked_at_;
  topology::PciTree pci_;
};

}  // namespace hbmwire::detail
