// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "hbmwire/context.hpp"
#include "hbmwire/settings.hpp"

#include "memory/provider.hpp"

// The entrances of all types of memory. A new accelerator adds a line here, a line in catalog.cpp,
// and a folder.
namespace hbmwire::memory {

/// For dma-bufs that the application imports.
class DmabufProvider : public Provider {
 public:
  /// Implements Context::import_dmabuf().
  virtual Result<Allocation> import_memory(const DmabufMemory& memory) = 0;
};

/// For memory from a vendor's library that cannot be asked about it: the application must describe
/// it.
class AdoptingProvider : public Provider {
 public:
  /// Implements Context::adopt().
  virtual Result<Allocation> adopt(const GaudiMemory& memory) = 0;
};

std::unique_ptr<Provider> make_host_provider();
std::unique_ptr<DmabufProvider> make_dmabuf_provider();
std::unique_ptr<AdoptingProvider> make_gaudi_provider(const Settings& settings);
std::unique_ptr<Provider> make_cuda_provider(const Settings& settings);
std::unique_ptr<Provider> make_rocm_provider(const Settings& settings);

}  // namespace hbmwire::memory
