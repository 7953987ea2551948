// SPDX-License-Identifier: MIT
#include "base/dynamic_library.hpp"

#include <link.h>

#include <string>

#include "base/log.hpp"

namespace hbmwire {

namespace {

// Which file it was says whether the right one was found.
void log_loaded(const char* name, void* handle) {
  if (!log_wanted(LogLevel::debug)) return;
  const link_map* map = nullptr;
  const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr;
  log_line(LogLevel::debug, [&] {
    return std::string("dlopen ") + name + ": loaded " + (known ? map->l_name : "?");
  });
}

void log_not_loaded(const char* name) {
  const char* const why = ::dlerror();
  if (!log_wanted(LogLevel::debug)) return;
  log_line(LogLevel::debug,
           [&] { return std::string("dlopen ") + name + ": " + (why != nullptr ? why : "?"); });
}

}  // namespace

Result<DynamicLibrary> DynamicLibrary::open(std::initializer_list<const char*> names, Hint hint) {
  DynamicLibrary library;
  const char* first = "";
  for (const char* name : names) {
    if (*first == '\0') first = name;
    if (void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
      library.handle_ = UniqueHandle<DynamicLibraryTraits>(handle);
      log_loaded(name, handle);
      return library;
    }
    log_not_loaded(name);
  }
  return tl::make_unexpected(
      make_error(Errc::not_found, Stage::probe, "the library can't be loaded", first, hint));
}

}  // namespace hbmwire
