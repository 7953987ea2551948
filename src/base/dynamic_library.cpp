// SPDX-License-Identifier: MIT
#include "base/dynamic_library.hpp"

namespace hbmwire {

Result<DynamicLibrary> DynamicLibrary::open(std::initializer_list<const char*> names, Hint hint) {
  DynamicLibrary library;
  const char* first = "";
  for (const char* name : names) {
    if (*first == '\0') first = name;
    if (void* handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
      library.handle_ = UniqueHandle<DynamicLibraryTraits>(handle);
      return library;
    }
  }
  return tl::make_unexpected(
      make_error(Errc::not_found, Stage::probe, "the library can't be loaded", first, hint));
}

}  // namespace hbmwire
