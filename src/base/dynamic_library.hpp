// SPDX-License-Identifier: MIT
#pragma once

#include <dlfcn.h>

#include <bit>
#include <initializer_list>

#include "hbmwire/error.hpp"
#include "hbmwire/unique_handle.hpp"

namespace hbmwire {

struct DynamicLibraryTraits {
  using type = void*;

  static constexpr type null() noexcept { return nullptr; }

  static void destroy(type handle) noexcept { ::dlclose(handle); }
};

/// A vendor's library, opened at run time, so that one binary serves every vendor and builds
/// without any SDK.
class DynamicLibrary {
 public:
  /// Opens the first of `names` that can be opened (dlopen(3), RTLD_NOW | RTLD_LOCAL).
  static Result<DynamicLibrary> open(std::initializer_list<const char*> names, Hint hint);

  /// Looks `name` up; null when the library lacks it.
  template <class Function>
  [[nodiscard]] Function* find(const char* name) const noexcept {
    return std::bit_cast<Function*>(::dlsym(handle_.get(), name));
  }

 private:
  UniqueHandle<DynamicLibraryTraits> handle_;
};

}  // namespace hbmwire
