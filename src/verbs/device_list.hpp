// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <vector>

#include "hbmwire/error.hpp"

namespace hbmwire::verbs {

/// The devices of ibv_get_device_list(3). They live as long as this list; opened devices live on.
class DeviceList {
 public:
  /// Errors: Stage::probe if libibverbs cannot look. An empty list is no error.
  static Result<DeviceList> get();

  /// Sorted by name ("mlx5_2" before "mlx5_10"), because the order of libibverbs differs from run
  /// to run.
  [[nodiscard]] const std::vector<ibv_device*>& devices() const noexcept { return devices_; }

 private:
  struct Deleter {
    void operator()(ibv_device** list) const noexcept { ibv_free_device_list(list); }
  };

  std::unique_ptr<ibv_device*[], Deleter> list_;
  std::vector<ibv_device*> devices_;
};

/// "dddd:bb:dd.f"; empty for a device that is no PCI function (a software device).
[[nodiscard]] std::string pci_address(const ibv_device* device);

/// Whether it is a Gaudi's own scale-up NIC (hbl_N). These answer to verbs, but neither import
/// dma-bufs nor take ordinary work requests.
[[nodiscard]] bool is_accelerators_own(const ibv_device* device);

}  // namespace hbmwire::verbs
