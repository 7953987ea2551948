// SPDX-License-Identifier: MIT
// usage: load_below LIBIBVERBS. Loads the plugin below that library and opens emu0 as libibverbs
// would. Prints the table of operations ("entry PLACE OFFSET", the offset within the plugin), and
// closes the device.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "emulation/nic/abi/layout.hpp"
#include "emulation/nic/abi/provider_abi.hpp"

namespace {

namespace abi = hbmwire::emulation::nic::abi;
using Table = std::span<const abi::Entry>;

template <typename Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Table table_of(void* library) {
  const abi::Entry* first = nullptr;
  const std::size_t count =
      function<std::size_t(const abi::Entry**)>(library, "made_up_operations")(&first);
  return {first, count};
}

void show_table(Table table) {
  for (std::size_t place = 0; place < table.size(); ++place) {
    Dl_info origin{};
    const void* const entry = reinterpret_cast<const void*>(table[place]);
    if (entry == nullptr) continue;
    const bool known = ::dladdr(entry, &origin) != 0;
    const auto offset = static_cast<const char*>(entry) -
                        static_cast<const char*>(known ? origin.dli_fbase : nullptr);
    std::printf("entry %zu %lx\n", place, static_cast<unsigned long>(offset));
  }
}

/// Uses the plugin's own operation, found at the place of the release.
void close_device(void* library, verbs_context* opened) {
  const abi::Layout& layout = *abi::find_layout(library);
  const std::array only = {abi::Implementation{abi::Operation::free_context, std::abort}};
  const auto places = abi::lay_out(layout, only);
  const auto place =
      std::ranges::find_if(places, [](abi::Entry entry) { return entry != nullptr; });
  const auto close = reinterpret_cast<void (*)(ibv_context*)>(
      table_of(library)[static_cast<std::size_t>(place - places.begin())]);
  auto* const context = reinterpret_cast<std::byte*>(opened) + layout.context_words * sizeof(void*);
  close(reinterpret_cast<ibv_context*>(context));
}

}  // namespace

int main(int, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  void* const library = ::dlopen(arguments[1], RTLD_NOW);
  const std::string plugin = std::string(variable("IBV_DRIVERS")) + ".so";
  if (library == nullptr || ::dlopen(plugin.c_str(), RTLD_NOW) == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return 1;
  }
  const auto* const driver =
      static_cast<const abi::Driver*>(function<const void*()>(library, "made_up_driver")());
  std::puts(driver == nullptr ? "not registered" : "registered");
  if (driver == nullptr) return 0;
  ibv_device device{};
  std::strcpy(device.name, "emu0");
  std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "%s/class/infiniband/emu0",
                variable("SYSFS_PATH"));
  const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  verbs_context* const opened = driver->alloc_context(&device, fd, nullptr);
  std::puts(opened != nullptr ? "opened" : "not opened");
  if (opened == nullptr) {
    function<void()>(library, "made_up_free_context")();
    return 0;
  }
  show_table(table_of(library));
  close_device(library, opened);
  ::close(fd);
  return 0;
}
