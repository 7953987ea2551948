// SPDX-License-Identifier: MIT
#include "verbs/device_list.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/descriptors.hpp"

namespace hbmwire::verbs {

namespace {

std::filesystem::path pci_directory(const ibv_device* device) {
  std::error_code failure;
  auto path =
      std::filesystem::canonical(std::filesystem::path(device->ibdev_path) / "device", failure);
  return failure ? std::filesystem::path{} : path;
}

}  // namespace

Result<DeviceList> DeviceList::get() {
  // Without descriptors, libibverbs finds fewer devices or none, and reports no failure.
  HBMWIRE_TRY(check_descriptors(Stage::probe, "RDMA devices"));
  DeviceList list;
  int count = 0;
  errno = 0;
  list.list_.reset(ibv_get_device_list(&count));
  // ENOSYS: the kernel has no RDMA, so there are no devices.
  if (list.list_ == nullptr && errno != 0 && errno != ENOSYS) {
    Error error = system_error(Stage::probe, "ibv_get_device_list", errno, "RDMA devices");
    if (!is_shortage(error)) error.hint = Hint::no_rdma_device;
    return tl::make_unexpected(error);
  }
  list.devices_.assign(list.list_.get(), list.list_.get() + count);
  std::sort(
      list.devices_.begin(), list.devices_.end(),
      [](const ibv_device* a, const ibv_device* b) { return ::strverscmp(a->name, b->name) < 0; });
  return list;
}

std::string pci_address(const ibv_device* device) {
  std::string name = pci_directory(device).filename().string();
  // "dddd:bb:dd.f". The directory of a software device has another kind of name.
  const bool looks_like_one =
      name.size() >= 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
  return looks_like_one ? name : std::string{};
}

bool is_accelerators_own(const ibv_device* device) {
  std::ifstream file(pci_directory(device) / "vendor");
  std::string vendor;
  return std::getline(file, vendor) && vendor == "0x1da3";  // Habana Labs
}

}  // namespace hbmwire::verbs
