// SPDX-License-Identifier: MIT
#include "base/shared_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "base/random.hpp"

namespace hbmwire {

namespace {

constexpr const char* kName = "hbmwire pieces";
constexpr std::string_view kLink = "/memfd:hbmwire pieces";  // with " (deleted)" behind it
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// The mark has a page of its own, behind the bytes.
constexpr std::uint64_t kPage = 4096;

Error failed(Stage stage, const char* call) {
  Error error = system_error(stage, call, errno, "shared host memory");
  if (error.number == EMFILE || error.number == ENFILE) error.hint = Hint::descriptor_limit;
  return error;
}

tl::unexpected<Error> refuse(const char* why, std::string_view what) {
  return tl::make_unexpected(make_error(Errc::permission_denied, Stage::open, why, what));
}

void* mark_of(std::span<std::byte> bytes) noexcept { return bytes.data() + bytes.size(); }

/// Before it is opened: that of a device, or of another user's process, is not to be touched.
Result<void> check(const std::string& process, const std::string& path) {
  struct stat owner {};

  if (::stat(process.c_str(), &owner) != 0) return tl::make_unexpected(failed(Stage::open, "stat"));
  if (owner.st_uid != ::geteuid()) return refuse("the process is another user's", process);
  std::array<char, kLink.size()> begin{};
  const ssize_t length = ::readlink(path.c_str(), begin.data(), begin.size());
  if (length < 0) return tl::make_unexpected(failed(Stage::open, "readlink"));
  if (std::string_view(begin.data(), static_cast<std::size_t>(length)) != kLink)
    return refuse("it is none of hbmwire's memory", path);
  return {};
}

}  // namespace

Result<SharedFile> SharedFile::map(Fd file, std::uint64_t size_bytes, Stage stage) {
  void* const memory =
      ::mmap(nullptr, size_bytes + kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return tl::make_unexpected(failed(stage, "mmap"));
  return SharedFile(std::move(file), {static_cast<std::byte*>(memory), size_bytes});
}

Result<SharedFile> SharedFile::create(std::uint64_t size_bytes) {
  if (size_bytes == 0 || size_bytes > kMostBytes || size_bytes % kPage != 0) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::allocate,
                                          "not a number of pages, or too much",
                                          "shared host memory"));
  }
  Fd file(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return tl::make_unexpected(failed(Stage::allocate, "memfd_create"));
  if (::ftruncate(file.get(), static_cast<off_t>(size_bytes + kPage)) != 0)
    return tl::make_unexpected(failed(Stage::allocate, "ftruncate"));
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0)
    return tl::make_unexpected(failed(Stage::allocate, "fcntl(F_ADD_SEALS)"));
  HBMWIRE_TRY_ASSIGN(SharedFile made, map(std::move(file), size_bytes, Stage::allocate));
  made.name_ = {.process = static_cast<std::uint32_t>(::getpid()),
                .descriptor = static_cast<std::uint32_t>(made.file_.get()),
                .mark = {random_number(), random_number()}};
  std::memcpy(mark_of(made.bytes_), made.name_.mark.data(), sizeof made.name_.mark);
  return made;
}

Result<SharedFile> SharedFile::open(const SharedFileName& name, std::uint64_t size_bytes) {
  const std::string process = "/proc/" + std::to_string(name.process);
  const std::string path = process + "/fd/" + std::to_string(name.descriptor);
  if (size_bytes == 0 || size_bytes > kMostBytes || size_bytes % kPage != 0)
    return refuse("not a number of pages, or too much", path);
  HBMWIRE_TRY(check(process, path));
  Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return tl::make_unexpected(failed(Stage::open, "open"));

  struct stat status {};

  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(file.get(), &status) != 0 ||
      std::cmp_not_equal(status.st_size, size_bytes + kPage))
    return refuse("its length is another one, or could change", path);
  HBMWIRE_TRY_ASSIGN(SharedFile opened, map(std::move(file), size_bytes, Stage::open));
  decltype(name.mark) mark{};
  std::memcpy(mark.data(), mark_of(opened.bytes_), sizeof mark);
  if (mark != name.mark) return refuse("it is not what was named", path);
  opened.file_.reset();
  return opened;
}

SharedFile::SharedFile(Fd file, std::span<std::byte> bytes) noexcept
    : file_(std::move(file)), bytes_(bytes) {}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : file_(std::move(other.file_)), bytes_(std::exchange(other.bytes_, {})), name_(other.name_) {}

SharedFile::~SharedFile() {
  if (!bytes_.empty() && ::munmap(bytes_.data(), bytes_.size() + kPage) != 0)
    log_warning("munmap", "failed", errno);
}

}  // namespace hbmwire
