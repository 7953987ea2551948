// SPDX-License-Identifier: MIT
#include "base/dynamic_library.hpp"

#include <link.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "base/log.hpp"

namespace hbmwire {

namespace {

// The path shows whether the right file was found.
void log_loaded(const char* name, void* handle) {
  if (!log_wanted(LogLevel::debug)) return;
  const link_map* map = nullptr;
  const bool known = ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr;
  log_line(LogLevel::debug, [&] {
    return std::string("dlopen ") + name + ": loaded " + (known ? map->l_name : "?");
  });
}

/// The errno of a failed dlopen(3), which reports it only as the end of a sentence. Returns 0 if
/// the sentence ends with none of these.
int shortage_in(std::string_view sentence) {
  for (const int number : {EMFILE, ENFILE, ENOMEM}) {
    if (sentence.ends_with(std::strerror(number))) return number;
  }
  // dlopen(3) names no errno when a segment does not fit the address space.
  return sentence.ends_with("failed to map segment from shared object") ? ENOMEM : 0;
}

/// The shortage that made dlopen(3) fail; 0 if the library is missing or unusable.
int look_at_failure(const char* name) {
  const char* const why = ::dlerror();
  const std::string_view sentence = why != nullptr ? why : "?";
  log_line(LogLevel::debug,
           [&] { return std::string("dlopen ") + name + ": " + std::string(sentence); });
  return shortage_in(sentence);
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
    if (const int shortage = look_at_failure(name); shortage != 0)
      return tl::make_unexpected(system_error(Stage::probe, "dlopen", shortage, name));
  }
  return tl::make_unexpected(
      make_error(Errc::not_found, Stage::probe, "the library can't be loaded", first, hint));
}

}  // namespace hbmwire
