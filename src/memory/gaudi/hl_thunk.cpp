// SPDX-License-Identifier: MIT
#include "memory/gaudi/hl_thunk.hpp"

#include <cerrno>

namespace hbmwire::memory::gaudi {

int errno_of(int result) noexcept {
  if (result == -1) return errno != 0 ? errno : EIO;
  return result < 0 ? -result : EIO;
}

const char* HlThunk::bind() {
  const char* missing = nullptr;
  const auto find = [&](auto& pointer, const char* name) {
    pointer =
        library_.find<std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>>(name);
    if (pointer == nullptr && missing == nullptr) missing = name;
  };
  find(open, "hlthunk_open");
  find(open_control, "hlthunk_open_control");
  find(close, "hlthunk_close");
  find(get_hw_ip_info, "hlthunk_get_hw_ip_info");
  find(get_pci_bus_id_from_fd, "hlthunk_get_pci_bus_id_from_fd");
  find(device_memory_alloc, "hlthunk_device_memory_alloc");
  find(device_memory_free, "hlthunk_device_memory_free");
  find(device_memory_map, "hlthunk_device_memory_map");
  find(memory_unmap, "hlthunk_memory_unmap");
  return missing;
}

// hlthunk_get_dev_memalloc_page_orders() was added together with the page size argument of
// hlthunk_device_memory_alloc().
void HlThunk::describe() {
  export_dmabuf_fd = library_.find<std::remove_pointer_t<decltype(export_dmabuf_fd)>>(
      "hlthunk_device_mapped_memory_export_dmabuf_fd");
  if (library_.find<void()>("hlthunk_get_dev_memalloc_page_orders") == nullptr) {
    abi_ = ThunkAbi::before_5_20;
  } else if (export_dmabuf_fd == nullptr) {
    abi_ = ThunkAbi::before_6_3;
  }
  auto* const get_version = library_.find<char*()>("hlthunk_get_version");
  auto* const free_text = library_.find<void(void*)>("hlthunk_free");
  if (get_version == nullptr || free_text == nullptr) return;
  if (char* const version = get_version(); version != nullptr) {
    description_ += std::string(" ") + version;
    free_text(version);
  }
}

Result<std::shared_ptr<const HlThunk>> HlThunk::load(std::initializer_list<const char*> names) {
  auto thunk = std::make_shared<HlThunk>();
  HBMWIRE_TRY_ASSIGN(thunk->library_, DynamicLibrary::open(names, Hint::no_hl_thunk));
  if (const char* const missing = thunk->bind(); missing != nullptr) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::probe,
                                          "libhl-thunk.so lacks a function", missing,
                                          Hint::old_hl_thunk));
  }
  thunk->describe();
  return std::shared_ptr<const HlThunk>(std::move(thunk));
}

Error old_abi_error(ThunkAbi abi) noexcept {
  return make_error(Errc::not_supported, Stage::probe,
                    abi == ThunkAbi::before_5_20
                        ? "the library is older than 5.20 and allocates in another way"
                        : "the library is older than 6.3 and can't export mapped memory",
                    "libhl-thunk.so", Hint::old_hl_thunk);
}

}  // namespace hbmwire::memory::gaudi
