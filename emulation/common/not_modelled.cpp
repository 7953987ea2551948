// SPDX-License-Identifier: MIT
#include "emulation/common/not_modelled.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "emulation/common/world.hpp"

namespace hbmwire::emulation {

void say_not_modelled(const char* library, NotModelled& function, const char* answer) noexcept {
  if (function.said.exchange(true) || std::getenv(kQuietVariable) != nullptr) return;
  std::fprintf(stderr,
               "emulated: %s of %s returned %s, since the emulation does not model it; hbmwire "
               "emulate --quiet hides this line\n",
               function.name, library, answer);
}

void* exported_function(const void* anchor, const char* name) noexcept {
  Dl_info library{};
  if (::dladdr(anchor, &library) == 0) return nullptr;
  void* const loaded = ::dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (loaded == nullptr) return nullptr;
  void* const found = ::dlsym(loaded, name);
  ::dlclose(loaded);
  return found;
}

}  // namespace hbmwire::emulation
