// SPDX-License-Identifier: MIT
#include "emulation/tool/netlink_filter.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstddef>

#include "emulation/tool/file_lock.hpp"

namespace hbmwire::emulation::tool {
namespace {

#if defined(__x86_64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "name this architecture's AUDIT_ARCH constant"
#endif

static_assert(std::endian::native == std::endian::little,
              "low_word() takes the first half of an argument");

// The offset of the lower half of a system call's argument.
constexpr unsigned low_word(unsigned argument) {
  return static_cast<unsigned>(offsetof(seccomp_data, args) + argument * sizeof(__u64));
}

constexpr sock_filter load(unsigned offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }

// Skips to the last instruction, which allows the call, if the loaded word differs.
constexpr sock_filter unless_equal_skip(unsigned value, unsigned char instructions) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, instructions);
}

}  // namespace

bool kernel_has_rdma_netlink() {
  return static_cast<bool>(Fd{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)});
}

Status block_netlink(int protocol) {
  // The arguments of socket() are the domain (0), the type (1) and the protocol (2).
  std::array program = {
      load(offsetof(seccomp_data, arch)),
      unless_equal_skip(kArchitecture, 7),
      load(offsetof(seccomp_data, nr)),
      unless_equal_skip(__NR_socket, 5),
      load(low_word(0)),
      unless_equal_skip(AF_NETLINK, 3),
      load(low_word(2)),
      unless_equal_skip(static_cast<unsigned>(protocol), 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) return {};
  // Without CAP_SYS_ADMIN the kernel takes a filter only after this.
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) {
    return {};
  }
  return cannot("hide the kernel's own RDMA devices with a seccomp filter");
}

}  // namespace hbmwire::emulation::tool
