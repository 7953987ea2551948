// SPDX-License-Identifier: MIT
#include "tools/perf/text_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "hbmwire/fd.hpp"

#include "tools/common/text.hpp"

namespace hbmwire::tools::perf {

Outcome<std::string> read_text_file(const std::string& path, std::uint64_t most_bytes) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_file("opening", path, errno);

  struct stat status {};

  if (::fstat(fd.get(), &status) != 0) return fail_file("opening", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return fail(fmt::format("file: {} is not a regular file: name the file itself", path));
  }
  if (static_cast<std::uint64_t>(status.st_size) > most_bytes) {
    return fail(
        fmt::format("file: {} is larger than the {} that such a file may have: check the "
                    "path",
                    path, size_text(most_bytes)));
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_file("reading", path, errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

Outcome<void> write_text_file(const std::string& path, const std::string& text) {
  constexpr mode_t kMode = 0666;  // less the umask
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!fd) return fail_file("opening", path, errno);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(fd.get(), text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_file("writing", path, errno);
    done += static_cast<std::size_t>(put);
  }
  return {};
}

}  // namespace hbmwire::tools::perf
