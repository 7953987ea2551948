// SPDX-License-Identifier: MIT
#include "group/file_place.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/log.hpp"
#include "group/left_addresses.hpp"
#include "group/pause.hpp"

namespace hbmwire::detail {

namespace {

constexpr off_t kHolderByte = 0;
constexpr off_t kTextByte = 1;

struct flock one_byte(short type, off_t at) noexcept {
  struct flock lock {};

  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = at;
  lock.l_len = 1;
  return lock;
}

/// 0, or the errno of fcntl(2).
int set_lock(const Fd& file, short type, off_t at) noexcept {
  struct flock lock = one_byte(type, at);
  return ::fcntl(file.get(), F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

bool is_held_by_other(int number) noexcept { return number == EAGAIN || number == EACCES; }

/// 0, or the errno of the call that failed.
int write_whole(const Fd& file, std::string_view text) noexcept {
  if (::ftruncate(file.get(), 0) != 0) return errno;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written =
        ::pwrite(file.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  // On a network file system, readers of other machines see it from now on.
  return ::fsync(file.get()) == 0 ? 0 : errno;
}

}  // namespace

Result<std::unique_ptr<MeetingPlace>> FilePlace::create(MeetingName meeting) {
  const std::filesystem::path folder = std::filesystem::path(meeting.path).parent_path();
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed)) {
    return tl::make_unexpected(make_error(Errc::not_found, Stage::configure,
                                          "the folder of this file is not there", meeting.text,
                                          Hint::group_launcher));
  }
  return std::make_unique<FilePlace>(std::move(meeting));
}

FilePlace::FilePlace(MeetingName meeting) : meeting_(std::move(meeting)) {}

FilePlace::~FilePlace() {
  // A child by fork(2) has the same lock, and must not remove its parent's file.
  if (!held_ || made_.is_inherited()) return;
  // The file is still locked, so that no other process takes it over before it is removed.
  const auto is_ours = is_at_path(held_);
  if (is_ours && *is_ours && ::unlink(meeting_.path.c_str()) != 0)
    log_warning("unlink", meeting_.path.c_str(), errno);
}

Result<bool> FilePlace::claim(const Wait& wait) {
  if (held_) return true;
  while (!wait.deadline.passed()) {
    HBMWIRE_TRY_ASSIGN(Fd file, open_file(O_RDWR | O_CREAT));
    const int number = set_lock(file, F_WRLCK, kHolderByte);
    if (is_held_by_other(number)) return false;
    if (number != 0) return tl::make_unexpected(file_failed("fcntl(F_OFD_SETLK)", number));
    // The holder before may have removed the file in between: then the locked file has no path.
    HBMWIRE_TRY_ASSIGN(const bool is_current, is_at_path(file));
    if (!is_current) continue;
    HBMWIRE_TRY(check_is_ours_to_write(file));
    held_ = std::move(file);
    return true;
  }
  return tl::make_unexpected(
      make_error(Errc::timed_out, Stage::connect, "locking the file", meeting_.text));
}

Result<void> FilePlace::claim_or_refuse(const Wait& wait) {
  // The process that this one replaces may be about to end.
  constexpr std::chrono::milliseconds kPatience(2000);
  constexpr std::chrono::milliseconds kAgain(20);
  const Deadline patience = Deadline::after(kPatience);
  for (;;) {
    HBMWIRE_TRY_ASSIGN(const bool is_ours, claim(wait));
    if (is_ours) return {};
    if (patience.passed()) {
      return tl::make_unexpected(make_error(Errc::busy, Stage::connect,
                                            "another process has the meeting point of this file",
                                            meeting_.text, Hint::group_launcher));
    }
    HBMWIRE_TRY(pause_for(kAgain, wait, "waiting for the file's lock", meeting_.text));
  }
}

Result<void> FilePlace::leave(const std::vector<std::string>& addresses, const Wait& wait) {
  HBMWIRE_TRY(claim_or_refuse(wait));
  int number = set_lock(held_, F_UNLCK, kTextByte);
  if (number == 0) number = write_whole(held_, left_text(addresses));
  if (number == 0) number = set_lock(held_, F_WRLCK, kTextByte);
  if (number != 0) return tl::make_unexpected(file_failed("writing the file", number));
  return {};
}

Result<std::vector<std::string>> FilePlace::look(const Wait& /*wait*/) {
  HBMWIRE_TRY_ASSIGN(const Fd file, open_file(O_RDONLY));
  if (!file) return {};
  // Asks for a lock that would conflict with a write lock; takes none.
  struct flock lock = one_byte(F_WRLCK, kTextByte);
  if (::fcntl(file.get(), F_OFD_GETLK, &lock) != 0)
    return tl::make_unexpected(file_failed("fcntl(F_OFD_GETLK)", errno));
  if (lock.l_type == F_UNLCK) return {};  // left by a process that has ended, or not yet written
  std::string text(kMaxLeftBytes + 1, '\0');  // one more, so that addresses_in() refuses the excess
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got =
        ::pread(file.get(), text.data() + size, text.size() - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tl::make_unexpected(file_failed("read", errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  return addresses_in(std::string_view(text).substr(0, size));
}

Result<Fd> FilePlace::open_file(int flags) const {
  constexpr mode_t kOwnerAlone = 0600;
  // O_NONBLOCK: a FIFO must not block the caller. O_NOFOLLOW: a link must not lead to another file.
  Fd file(::open(meeting_.path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, kOwnerAlone));
  if (!file && errno == ENOENT && (flags & O_CREAT) == 0) return Fd();
  if (!file) return tl::make_unexpected(file_failed("open", errno));

  struct stat status {};

  if (::fstat(file.get(), &status) != 0) return tl::make_unexpected(file_failed("fstat", errno));
  // In a file of another user, that user could leave false addresses.
  if (!S_ISREG(status.st_mode) || (status.st_uid != ::geteuid() && status.st_uid != 0)) {
    return tl::make_unexpected(make_error(Errc::permission_denied, Stage::connect,
                                          "this is no regular file of this user's", meeting_.text,
                                          Hint::group_launcher));
  }
  return file;
}

Result<void> FilePlace::check_is_ours_to_write(const Fd& file) const {
  const std::string begin = left_text({}).substr(0, kLeftNameBytes);
  std::string found(begin.size(), '\0');
  const ssize_t got = ::pread(file.get(), found.data(), found.size(), 0);
  if (got < 0) return tl::make_unexpected(file_failed("read", errno));
  // A process that was killed may have written less.
  if (begin.starts_with(std::string_view(found).substr(0, static_cast<std::size_t>(got))))
    return {};
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect,
                                        "this file is another program's, and would be overwritten",
                                        meeting_.text, Hint::group_launcher));
}

Result<bool> FilePlace::is_at_path(const Fd& file) const {
  struct stat mine {};

  struct stat current {};

  if (::fstat(file.get(), &mine) != 0) return tl::make_unexpected(file_failed("fstat", errno));
  if (::lstat(meeting_.path.c_str(), &current) != 0) {
    if (errno == ENOENT) return false;
    return tl::make_unexpected(file_failed("lstat", errno));
  }
  return mine.st_dev == current.st_dev && mine.st_ino == current.st_ino;
}

Error FilePlace::file_failed(const char* call, int number) const {
  return system_error(Stage::connect, call, number, meeting_.text, Hint::group_launcher);
}

}  // namespace hbmwire::detail
