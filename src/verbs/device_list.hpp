// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <vector>

#include "hbmwire/error.hpp"

namespace hbmwire::verbs {

/// What ibv_get_device_list(3) gives. The devices live as long as it does; what was opened lives
/// on.
class DeviceList {
 public:
  /// Errors: Stage::probe, when libibverbs can't look; no device is no error.
  static Result<DeviceList> get();

  /// In the order of their names ("mlx5_2" before "mlx5_10"): libibverbs' own differs from run to
  /// run.
  [[nodiscard]] const std::vector<ibv_device*>& devices() const noexcept { return devices_; }

 private:
  struct Deleter {
    void operator()(ibv_device** list) const noexcept { ibv_free_device_list(list); }
  };

  std::unique_ptr<ibv_device*[], Deleter> list_;
  std::vector<ibv_device*> devices_;
};

/// "dddd:bb:dd.f"; empty for a device that is no PCI function (software).
[[nodiscard]] std::string pci_address(const ibv_device* device);

/// Whether it is a Gaudi's own scale-up NIC (hbl_N): those answer to verbs, but neither import
/// dma-bufs nor take ordinary work requests.
[[nodiscard]] bool is_accelerators_own(const ibv_device* device);

}  // namespace hbmwire::verbs
