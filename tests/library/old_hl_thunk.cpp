// SPDX-License-Identifier: MIT
//
// A libhl-thunk.so with the symbols of the release in OLD_HL_THUNK (major * 100 + minor). It
// exports those functions of hl-thunk 5.15 and 5.20 that matter here. None of them may be called.
#include <cstdlib>

#define PRESENT(name) \
  extern "C" __attribute__((visibility("default"))) void name() { std::abort(); }

PRESENT(hlthunk_open)
PRESENT(hlthunk_open_control)
PRESENT(hlthunk_close)
PRESENT(hlthunk_get_hw_ip_info)
PRESENT(hlthunk_get_pci_bus_id_from_fd)
PRESENT(hlthunk_get_device_index_from_pci_bus_id)
PRESENT(hlthunk_device_memory_alloc)
PRESENT(hlthunk_device_memory_free)
PRESENT(hlthunk_device_memory_map)
PRESENT(hlthunk_memory_unmap)
#if OLD_HL_THUNK >= 520
PRESENT(hlthunk_get_dev_memalloc_page_orders)
PRESENT(hlthunk_device_memory_export_dmabuf_fd)
#endif
