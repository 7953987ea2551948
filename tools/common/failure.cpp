// SPDX-License-Identifier: MIT
#include "tools/common/failure.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "tools/common/interrupt.hpp"

namespace hbmwire::tools {
namespace {

// What is missing before any work began: docs/exit-codes.md.
bool is_unavailable(const Error& error) {
  if (error.stage == Stage::probe || error.stage == Stage::open) return true;
  const bool at_registration =
      error.stage == Stage::export_dmabuf || error.stage == Stage::register_memory;
  return at_registration && error.code == Errc::not_supported;
}

int exit_code_of(const Error& error) {
  if (error.code == Errc::cancelled) return Interrupt::exit_code();
  if (error.stage == Stage::configure) return kExitUsage;
  return is_unavailable(error) ? kExitUnavailable : kExitFailed;
}

const char* remedy(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "; make room there, or name another directory";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; check its permissions";
    case ENOENT:
      return "; check the path";
    default:
      return "";
  }
}

}  // namespace

Failure::Failure(const Error& error)
    : text(error.code == Errc::cancelled ? "interrupted" : describe(error)),
      exit_code(exit_code_of(error)),
      interrupted(error.code == Errc::cancelled) {}

tl::unexpected<Failure> fail_file(const std::string& what, const std::string& path,
                                  int error_number) {
  return fail(fmt::format("file: {} {}: {}{}", what, path,
                          std::generic_category().message(error_number), remedy(error_number)));
}

}  // namespace hbmwire::tools
