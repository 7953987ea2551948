// SPDX-License-Identifier: MIT
#include "base/shared_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/random.hpp"

namespace hbmwire {

namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

/// The name of the file in memfd_create(2). It holds the mark, because a name can be read before
/// the file is opened, and takes no byte of the memory. The name is as secret as the contents: the
/// same permission guards both (proc(5)).
std::string memfd_name(const SharedFileName& name) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), "hbmwire %016llx%016llx",
                                   static_cast<unsigned long long>(name.mark[0]),
                                   static_cast<unsigned long long>(name.mark[1]));
  return {text.data(), static_cast<std::size_t>(length)};
}

Error failed(Stage stage, const char* call) {
  return system_error(stage, call, errno, "shared host memory");
}

tl::unexpected<Error> refuse(const char* why, std::string_view what) {
  return tl::make_unexpected(make_error(Errc::permission_denied, Stage::open, why, what));
}

Result<void> check_owner(const std::string& process) {
  struct stat owner {};

  if (::stat(process.c_str(), &owner) != 0) return tl::make_unexpected(failed(Stage::open, "stat"));
  if (owner.st_uid != ::geteuid()) return refuse("the process is another user's", process);
  return {};
}

/// Checks the target of a link in /proc/PID/fd. `where` is named in errors.
Result<void> check_name(const std::string& link, const SharedFileName& name,
                        const std::string& where) {
  std::array<char, 128> text{};
  const ssize_t length = ::readlink(link.c_str(), text.data(), text.size());
  if (length < 0) return tl::make_unexpected(failed(Stage::open, "readlink"));
  if (std::string_view(text.data(), static_cast<std::size_t>(length)) !=
      "/memfd:" + memfd_name(name) + " (deleted)")
    return refuse("it is not the memory that was named", where);
  return {};
}

}  // namespace

Result<SharedFile> SharedFile::create(std::uint64_t size_bytes, const SharedFileOptions& options) {
  SharedFile made;
  made.name.process = static_cast<std::uint32_t>(::getpid());
  made.name.mark = options.mark;
  if (made.name.mark == decltype(made.name.mark){})
    made.name.mark = {random_number(), random_number()};
  made.fd = Fd(::memfd_create(memfd_name(made.name).c_str(),
                              MFD_CLOEXEC | MFD_ALLOW_SEALING | options.flags));
  if (!made.fd) return tl::make_unexpected(failed(Stage::allocate, "memfd_create"));
  made.name.descriptor = static_cast<std::uint32_t>(made.fd.get());
  if (::ftruncate(made.fd.get(), static_cast<off_t>(size_bytes)) != 0)
    return tl::make_unexpected(failed(Stage::allocate, "ftruncate"));
  // F_SEAL_SEAL would forbid the seal that let_others_read_alone() adds.
  const int seals = options.to_be_read_only ? kSeals : kSeals | F_SEAL_SEAL;
  if (::fcntl(made.fd.get(), F_ADD_SEALS, seals) != 0)
    return tl::make_unexpected(failed(Stage::allocate, "fcntl(F_ADD_SEALS)"));
  return made;
}

Result<void> SharedFile::let_others_read_alone() const {
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0) return {};
  return tl::make_unexpected(failed(Stage::allocate, "fcntl(F_SEAL_FUTURE_WRITE)"));
}

Result<Fd> SharedFile::open(const SharedFileName& name, std::uint64_t size_bytes, bool writes) {
  const std::string process = "/proc/" + std::to_string(name.process);
  const std::string path = process + "/fd/" + std::to_string(name.descriptor);
  // Checked before the file is opened: opening a device, or another user's file, could have
  // effects.
  HBMWIRE_TRY(check_owner(process));
  HBMWIRE_TRY(check_name(path, name, path));
  const int access = writes ? O_RDWR : O_RDONLY;
  Fd file(::open(path.c_str(), access | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return tl::make_unexpected(failed(Stage::open, "open"));
  // Checked once more on the opened file: the process may have replaced the descriptor meanwhile.
  HBMWIRE_TRY(check_name("/proc/thread-self/fd/" + std::to_string(file.get()), name, path));

  struct stat status {};

  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(file.get(), &status) != 0 ||
      std::cmp_not_equal(status.st_size, size_bytes))
    return refuse("its length is another one, or could change", path);
  return file;
}

}  // namespace hbmwire
