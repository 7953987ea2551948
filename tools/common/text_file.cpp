// SPDX-License-Identifier: MIT
#include "tools/common/text_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>

#include "tools/common/held_signals.hpp"
#include "tools/common/saved_file.hpp"
#include "tools/common/text.hpp"

namespace hbmwire::tools {
namespace {

constexpr std::uint64_t kUsualBytes = 65536;
constexpr mode_t kPermissions = 07777;

/// Whether replacing the file by a new one makes no difference to its other users.
bool can_be_replaced(const struct stat& old) {
  return S_ISREG(old.st_mode) && old.st_nlink == 1 && old.st_uid == ::geteuid() &&
         old.st_gid == ::getegid();
}

}  // namespace

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

/// The place after following symbolic links, which stay. Empty for an open file of a process, such
/// as /dev/stdout: its owner would continue with the old one.
std::optional<TextFile::Place> TextFile::place_of(const std::string& path) {
  constexpr int kMostLinks = 40;  // the kernel's limit
  std::filesystem::path at = path;
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code failure;
    const auto folder = std::filesystem::canonical(
        at.has_parent_path() ? at.parent_path() : std::filesystem::path("."), failure);
    if (failure || !at.has_filename() || folder.string().starts_with("/proc")) return std::nullopt;
    at = folder / at.filename();
    const auto target = std::filesystem::read_symlink(at, failure);
    if (failure) return Place{.folder = folder, .name = at.filename(), .mode = std::nullopt};
    at = folder / target;  // the target itself if it is absolute
  }
  return std::nullopt;
}

/// Whether a file can be created there, with room for the output of a usual run.
Outcome<void> TextFile::try_place(const Place& place) {
  const HeldSignals held;  // the test file is removed at once
  const auto tried = SavedFile::create(place.folder, place.name, kUsualBytes);
  if (!tried) return tl::make_unexpected(tried.error());
  return {};
}

Outcome<TextFile> TextFile::open(const std::string& path) {
  TextFile file(path);
  file.fd_ = Fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const int error = file.fd_ ? 0 : errno;
  if (error != 0 && error != ENOENT) return fail_file("opening", path, error);

  struct stat old {};

  if (error == 0 && ::fstat(file.fd_.get(), &old) != 0) return fail_file("opening", path, errno);
  // A file that does not exist (`error`), or that can be replaced, needs a place for a new file. An
  // existing one without such a place is written in place.
  if (error != 0 || can_be_replaced(old)) file.place_ = place_of(path);
  if (error != 0 && !file.place_) return fail_file("opening", path, error);
  if (file.place_) {
    const auto tried = try_place(*file.place_);
    if (!tried && error != 0) return tl::make_unexpected(tried.error());
    if (!tried) file.place_.reset();
  }
  if (!file.place_) {
    HBMWIRE_TRY(file.reserve());
    return file;
  }
  if (error == 0) file.place_->mode = old.st_mode & kPermissions;
  file.fd_ = Fd();
  return file;
}

Outcome<void> TextFile::open(const std::string& path, std::optional<TextFile>& file) {
  if (path.empty()) return {};
  HBMWIRE_TRY_ASSIGN(TextFile opened, open(path));
  file.emplace(std::move(opened));
  return {};
}

/// For a file that is written in place. Full devices refuse even an empty write. A full disk
/// refuses to reserve room for the output of a usual run.
Outcome<void> TextFile::reserve() {
  struct stat status {};

  if (::fstat(fd_.get(), &status) != 0) return fail_file("opening", path_, errno);
  regular_ = S_ISREG(status.st_mode);
  const bool writes = ::write(fd_.get(), "", 0) == 0;
  if (!writes) return fail_file("writing", path_, errno);
  if (!regular_ ||
      ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(kUsualBytes)) == 0)
    return {};
  // Not every file system can reserve room.
  if (errno == ENOSPC || errno == EDQUOT) return fail_file("making room for", path_, errno);
  return {};
}

Outcome<void> TextFile::write(const std::string& text) {
  // Signals are held, so that none ends the process and leaves a temporary file behind.
  const HeldSignals held;
  return place_ ? replace(text) : write_in_place(text);
}

Outcome<void> TextFile::replace(const std::string& text) {
  HBMWIRE_TRY_ASSIGN(SavedFile file, SavedFile::create(place_->folder, place_->name, text.size()));
  if (place_->mode) HBMWIRE_TRY(file.set_mode(*place_->mode));
  HBMWIRE_TRY(file.append(std::as_bytes(std::span(text))));
  HBMWIRE_TRY(file.sync());
  return file.keep();
}

Outcome<void> TextFile::write_in_place(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(fd_.get(), text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_file("writing", path_, errno);
    done += static_cast<std::size_t>(put);
  }
  // Cuts off the rest of the old contents, and reserved room that was not needed.
  if (regular_ && ::ftruncate(fd_.get(), static_cast<off_t>(text.size())) != 0)
    return fail_file("writing", path_, errno);
  // Some file systems report a full disk only in close(2).
  if (::close(fd_.release()) != 0) return fail_file("writing", path_, errno);
  return {};
}

}  // namespace hbmwire::tools
