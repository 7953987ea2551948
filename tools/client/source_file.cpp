// SPDX-License-Identifier: MIT
#include "tools/client/source_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "tools/common/text.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools {
namespace {

tl::unexpected<Failure> changed(const std::string& path, const char* how) {
  return fail(fmt::format("file: {} {} while it was read: send it when no program writes to it",
                          path, how));
}

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

Outcome<SourceFile> SourceFile::open(const std::string& path) {
  std::string name = base_name_of(path);
  if (!is_base_name(name)) {
    return fail(
        fmt::format(
            "file: {} has no file name that can be sent: at most 255 bytes, no control characters",
            path.empty() ? "\"\"" : wire::printable(path)),
        kExitUsage);
  }
  // Must not hang on a FIFO, which is refused below.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_file("opening", path, errno);

  struct stat status {};

  if (::fstat(fd.get(), &status) != 0) return fail_file("opening", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(fmt::format("file: {} is not a regular file: pack it up first (tar)", path));
  }
  // This is only advice: a failure does no harm.
  static_cast<void>(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
  return SourceFile(std::move(fd), path, std::move(name), status);
}

Outcome<void> SourceFile::read(std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::read(fd_.get(), to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_file("reading", path_, errno);
    if (got == 0) return changed(path_, "shrank");
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Outcome<void> SourceFile::check_unchanged() const {
  struct stat now {};

  if (::fstat(fd_.get(), &now) != 0) return fail_file("reading", path_, errno);
  if (now.st_size > status_.st_size) return changed(path_, "grew");
  if (now.st_size < status_.st_size) return changed(path_, "shrank");
  if (!same_time(now.st_mtim, status_.st_mtim)) return changed(path_, "was written to");
  return {};
}

}  // namespace hbmwire::tools
