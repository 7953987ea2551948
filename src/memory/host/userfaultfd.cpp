// SPDX-License-Identifier: MIT
#include "memory/host/userfaultfd.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "memory/host/mappings.hpp"

namespace hbmwire::memory::host {

namespace {

// Does not ask for the event of fork(2), which needs privileges: a child's mappings are not
// watched. The last feature lets shared memory be watched in the mode that traps nothing (Linux
// 5.19).
constexpr std::uint64_t kFeatures = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
                                    UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;

// Ordinary users may not handle faults within the kernel. This flag excludes them, because none can
// happen here.
constexpr int kFlags = O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY;

/// Uses the system call. If a container forbids that, uses the device, if the container has it.
Fd open_descriptor() noexcept {
  Fd fd(static_cast<int>(::syscall(SYS_userfaultfd, kFlags)));
  if (fd || (errno != EPERM && errno != ENOSYS)) return fd;
  const int refused = errno;
  const Fd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (device) fd = Fd(::ioctl(device.get(), USERFAULTFD_IOC_NEW, kFlags));
  if (!fd) errno = refused;
  return fd;
}

Error refusal(const char* call, int error_number) noexcept {
  Error error = system_error(Stage::register_memory, call, error_number, {}, Hint::no_userfaultfd);
  if (error_number == EINVAL) error.code = Errc::not_supported;
  return error;
}

int unregister(int fd, AddressRange pages) noexcept {
  uffdio_range range{pages.begin, pages.end - pages.begin};
  return ::ioctl(fd, UFFDIO_UNREGISTER, &range) == 0 ? 0 : errno;
}

bool is_mapped(std::uint64_t page) noexcept {
  unsigned char resident = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel is asked about an address.
  return ::mincore(reinterpret_cast<void*>(page), 1, &resident) == 0;
}

}  // namespace

Result<Userfaultfd> Userfaultfd::open() {
  Fd fd = open_descriptor();
  if (!fd) return tl::make_unexpected(refusal("userfaultfd", errno));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kFeatures;
  if (::ioctl(fd.get(), UFFDIO_API, &api) != 0)
    return tl::make_unexpected(refusal("ioctl(UFFDIO_API)", errno));
  return Userfaultfd(std::move(fd));
}

// The mode UFFDIO_REGISTER_MODE_WP traps only pages that are write-protected, and none ever is. The
// mode for missing pages would trap the first touch of each page.
int Userfaultfd::watch(AddressRange pages) const noexcept {
  uffdio_register range{};
  range.range = {pages.begin, pages.end - pages.begin};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  return ::ioctl(fd_.get(), UFFDIO_REGISTER, &range) == 0 ? 0 : errno;
}

void Userfaultfd::unwatch(AddressRange pages) const noexcept {
  if (unregister(fd_.get(), pages) == 0) return;
  // The kernel refuses the whole range if nothing lies there, but also if a part cannot be watched.
  // The first case is normal after a munmap(2), and must not cost a walk through all mappings.
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (!is_mapped(pages.begin) && !is_mapped(pages.end - page_bytes)) return;
  static_cast<void>(for_each_mapping([&](const Mapping& mapping) {
    const AddressRange part = common(mapping.range, pages);
    if (part.begin != part.end) (void)unregister(fd_.get(), part);
    return mapping.range.begin < pages.end;
  }));
}

Userfaultfd::Event Userfaultfd::read() const noexcept {
  using enum Event::Kind;
  uffd_msg message{};
  const ssize_t got = ::read(fd_.get(), &message, sizeof(message));
  if (got != sizeof(message))
    return {got < 0 && (errno == EAGAIN || errno == EINTR) ? none : lost, kAllAddresses, 0};
  switch (message.event) {
    case UFFD_EVENT_UNMAP:  // also described by arg.remove
      return {gone, {message.arg.remove.start, message.arg.remove.end}, 0};
    case UFFD_EVENT_REMOVE:
      return {discarded, {message.arg.remove.start, message.arg.remove.end}, 0};
    case UFFD_EVENT_REMAP:
      return {moved,
              {message.arg.remap.from, message.arg.remap.from + message.arg.remap.len},
              message.arg.remap.to};
    default:
      return {};
  }
}

bool Userfaultfd::change_under_way() const noexcept {
  // The kernel refuses the call in any case. It checks for EAGAIN (a change is under way) first,
  // and returns EINVAL for the empty copy after that.
  uffdio_copy nothing{};
  return ::ioctl(fd_.get(), UFFDIO_COPY, &nothing) == 0 || errno != EINVAL;
}

}  // namespace hbmwire::memory::host
