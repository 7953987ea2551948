// SPDX-License-Identifier: MIT
#include "memory/gaudi/card_driver.hpp"

#include <cerrno>

namespace hbmwire::memory::gaudi {

Error open_error(const char* call, int error_number, std::string_view pci_address) noexcept {
  Hint hint = Hint::none;
  if (error_number == EBUSY) hint = Hint::gaudi_busy;
  if (error_number == EAGAIN) hint = Hint::gaudi_resetting;
  if (error_number == ENOENT || error_number == ENODEV || error_number == ENXIO ||
      error_number == EINVAL) {
    const bool any = pci_address.empty();
    return make_error(Errc::not_found, Stage::probe,
                      any ? "no Gaudi card found" : "no such Gaudi card", pci_address,
                      any ? Hint::no_gaudi_device : Hint::no_such_gaudi_device);
  }
  return system_error(Stage::open, call, error_number,
                      pci_address.empty() ? std::string_view("gaudi") : pci_address, hint);
}

}  // namespace hbmwire::memory::gaudi
