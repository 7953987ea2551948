// SPDX-License-Identifier: MIT
#include "tools/common/text_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tools/common/text.hpp"

namespace hbmwire::tools {

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

Outcome<TextFile> TextFile::open(const std::string& path) {
  constexpr mode_t kMode = 0666;  // less the umask
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  const bool made = static_cast<bool>(fd);
  // O_CREAT again: a symbolic link may be there, and what it leads to not.
  if (!made && errno == EEXIST)
    fd = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kMode));
  if (!fd) return fail_file("opening", path, errno);
  TextFile file(path, std::move(fd), made);
  HBMWIRE_TRY(file.reserve());
  return file;
}

/// Full devices refuse even nothing; a full disk refuses room for what a usual run needs.
Outcome<void> TextFile::reserve() {
  constexpr off_t kUsualBytes = 65536;

  struct stat status {};

  if (::fstat(fd_.get(), &status) != 0) return fail_file("opening", path_, errno);
  regular_ = S_ISREG(status.st_mode);
  const bool writes = ::write(fd_.get(), "", 0) == 0;
  if (!writes) return fail_file("writing", path_, errno);
  if (!regular_ || ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, kUsualBytes) == 0) return {};
  // Not every file system can tell.
  if (errno == ENOSPC || errno == EDQUOT) return fail_file("making room for", path_, errno);
  return {};
}

TextFile::~TextFile() {
  if (fd_ && made_) ::unlink(path_.c_str());
}

Outcome<void> TextFile::write(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(fd_.get(), text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_file("writing", path_, errno);
    done += static_cast<std::size_t>(put);
  }
  // Behind the contents: what was there before, and the room that was not needed.
  if (regular_ && ::ftruncate(fd_.get(), static_cast<off_t>(text.size())) != 0)
    return fail_file("writing", path_, errno);
  // Some file systems tell only now that the disk is full, close(2).
  if (::close(fd_.release()) != 0) return fail_file("writing", path_, errno);
  return {};
}

}  // namespace hbmwire::tools
