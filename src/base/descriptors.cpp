// SPDX-License-Identifier: MIT
#include "base/descriptors.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>

#include "hbmwire/fd.hpp"

#include "base/memory_room.hpp"

namespace hbmwire {

namespace {

// Bytes. A library that is loaded asks for at least this much.
constexpr std::uint64_t kSmallNeed = std::uint64_t{16} << 20U;

}  // namespace

Result<void> check_descriptors(Stage stage, std::string_view subject) noexcept {
  std::array<Fd, kDescriptorsToProbe> tried;
  for (Fd& fd : tried) {
    fd = Fd(::open("/", O_PATH | O_CLOEXEC));
    if (!fd) return tl::make_unexpected(system_error(stage, "open", errno, subject));
  }
  return {};
}

void name_reached_limit(Error& error) noexcept {
  Hint reached = Hint::none;
  if (const auto enough = check_descriptors(error.stage, {}); !enough) {
    reached = enough.error().hint;
  } else if (const Hint memory =
                 memory_hint(Memory::any, error.stage == Stage::probe ? kSmallNeed : kUnknownNeed);
             memory != Hint::host_memory_exhausted) {
    reached = memory;
  }
  if (reached == Hint::none) return;
  error.hint = reached;
  error.code = Errc::exhausted;
}

}  // namespace hbmwire
