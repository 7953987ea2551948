// SPDX-License-Identifier: MIT
#include "tools/common/saved_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <limits>
#include <random>

namespace hbmwire::tools {
namespace {

std::string temporary_name() {
  std::random_device random;
  return fmt::format(".hbmwire-{:08x}{:08x}.part", random(), random());
}

// Reserves room. Returns errno; 0 on success, and if this file system cannot reserve.
int reserve(int fd, std::uint64_t bytes) {
  if (bytes == 0) return 0;
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) return EFBIG;
  // The size stays 0, and grows with the bytes that are written.
  if (::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0) return 0;
  return errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR ? 0 : errno;
}

}  // namespace

SavedFile::SavedFile(Fd directory, std::string directory_path, std::string name)
    : directory_(std::move(directory)),
      directory_path_(std::move(directory_path)),
      name_(std::move(name)),
      temporary_(temporary_name()) {}

SavedFile::SavedFile(SavedFile&&) noexcept = default;

SavedFile::~SavedFile() {
  if (fd_) ::unlinkat(directory_.get(), temporary_.c_str(), 0);
}

Outcome<SavedFile> SavedFile::create(const std::string& directory, const std::string& name,
                                     std::uint64_t bytes) {
  Fd folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail_file("saving to", directory, errno);
  SavedFile file(std::move(folder), directory, name);
  // The process's umask applies, as to every file that a user creates.
  constexpr mode_t kMode = 0666;
  file.fd_ = Fd(::openat(file.directory_.get(), file.temporary_.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!file.fd_) return fail_file("saving to", directory, errno);
  if (const int problem = reserve(file.fd_.get(), bytes); problem != 0) {
    return fail_file(fmt::format("making room for {} bytes for", bytes), file.path(), problem);
  }
  return file;
}

Outcome<void> SavedFile::set_mode(mode_t mode) const {
  if (::fchmod(fd_.get(), mode) != 0) return fail_file("writing", path(), errno);
  return {};
}

Outcome<void> SavedFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_file("writing", path(), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Outcome<void> SavedFile::sync() const {
  if (::fsync(fd_.get()) != 0) return fail_file("writing", path(), errno);
  return {};
}

Outcome<void> SavedFile::keep() {
  if (::renameat(directory_.get(), temporary_.c_str(), directory_.get(), name_.c_str()) != 0) {
    return fail_file("naming", path(), errno);
  }
  fd_.reset();
  // Makes the name survive a power failure, too. Some file systems cannot do this; the contents are
  // safe anyway.
  static_cast<void>(::fsync(directory_.get()));
  return {};
}

}  // namespace hbmwire::tools
