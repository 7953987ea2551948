// SPDX-License-Identifier: MIT
#include "memory/gaudi/hl_thunk.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace hbmwire::memory::gaudi {

namespace {

// libibverbs' variable for a sysfs that lies elsewhere is honoured here, too, so that both see the
// same machine.
std::filesystem::path sysfs() {
  const char* path = std::getenv("SYSFS_PATH");
  return path != nullptr && *path != '\0' ? path : "/sys";
}

std::string read_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

int errno_of(int result) noexcept {
  if (result == -1) return errno != 0 ? errno : EIO;
  return result < 0 ? -result : EIO;
}

Result<HlThunk> HlThunk::load() {
  HlThunk thunk;
  HBMWIRE_TRY_ASSIGN(thunk.library_,
                     DynamicLibrary::open({"libhl-thunk.so", "/usr/lib/habanalabs/libhl-thunk.so"},
                                          Hint::no_hl_thunk));
  const char* missing = nullptr;
  const auto bind = [&](auto& pointer, const char* name) {
    pointer =
        thunk.library_.find<std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>>(
            name);
    if (pointer == nullptr && missing == nullptr) missing = name;
  };
  bind(thunk.open, "hlthunk_open");
  bind(thunk.close, "hlthunk_close");
  bind(thunk.get_hw_ip_info, "hlthunk_get_hw_ip_info");
  bind(thunk.get_pci_bus_id_from_fd, "hlthunk_get_pci_bus_id_from_fd");
  bind(thunk.device_memory_alloc, "hlthunk_device_memory_alloc");
  bind(thunk.device_memory_free, "hlthunk_device_memory_free");
  bind(thunk.device_memory_map, "hlthunk_device_memory_map");
  bind(thunk.memory_unmap, "hlthunk_memory_unmap");
  bind(thunk.export_dmabuf_fd, "hlthunk_device_mapped_memory_export_dmabuf_fd");
  if (missing != nullptr) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::probe,
                                          "libhl-thunk.so lacks a function", missing,
                                          Hint::old_hl_thunk));
  }
  return thunk;
}

Result<std::string> resolve_card(const std::string& card) {
  if (card.empty() || card.find(':') != std::string::npos) return card;
  const bool is_index =
      card.size() <= 4 && card.find_first_not_of("0123456789") == std::string::npos;
  if (is_index) {
    const auto node = sysfs() / "class/accel" / ("accel" + card);
    // Kernels 6.3 to 6.6 have the file one directory higher.
    for (const auto& file : {node / "device/pci_addr", node / "pci_addr"}) {
      if (std::string address = read_line(file); !address.empty()) return address;
    }
  }
  return tl::make_unexpected(make_error(Errc::not_found, Stage::probe, "no Gaudi card of this name",
                                        card, Hint::no_such_gaudi_device));
}

Result<int> export_mapping(const HlThunk& thunk, int device_fd, std::uint64_t base,
                           std::uint64_t size, std::string_view card) {
  // Offset 0 always: kernels up to 6.6 check an offset and then ignore it. Any other flags are
  // refused unseen.
  const int fd =
      thunk.export_dmabuf_fd(device_fd, base, round_up(size, kExportPage), 0, O_RDWR | O_CLOEXEC);
  if (fd >= 0) return fd;
  return tl::make_unexpected(system_error(Stage::export_dmabuf,
                                          "hlthunk_device_mapped_memory_export_dmabuf_fd",
                                          errno_of(fd), card, Hint::export_refused));
}

int numa_node_of(const std::string& pci_address) {
  const std::string text = read_line(sysfs() / "bus/pci/devices" / pci_address / "numa_node");
  return text.empty() ? -1 : std::atoi(text.c_str());
}

const char* model_name(std::uint32_t device_id) noexcept {
  switch (device_id) {
    case 0x1000:
    case 0x1001:
    case 0x1010:
    case 0x1011:
      return "gaudi";
    case 0x1020:
    case 0x1021:
      return "gaudi2";
    case 0x1060:
    case 0x1061:
    case 0x1062:
    case 0x1063:
      return "gaudi3";
    default:
      return "gaudi?";
  }
}

}  // namespace hbmwire::memory::gaudi
