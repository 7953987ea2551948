// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

/// Rights that a process and its children give up for good.
namespace hbmwire::test {

/// Gives up root's right to inspect all processes.
inline void drop_right_to_trace() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  ASSERT_EQ(::syscall(SYS_capget, &header, data.data()), 0);
  // The right's number is below 32, so its bit is in the first word.
  const std::uint32_t bit = 1U << CAP_SYS_PTRACE;
  data[0].effective &= ~bit;
  data[0].permitted &= ~bit;
  ASSERT_EQ(::syscall(SYS_capset, &header, data.data()), 0);
}

/// Forbids process_vm_readv(2) and process_vm_writev(2), as containers may do.
inline void forbid_copies() {
  constexpr auto kNumber = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  // The last two numbers of a jump: instructions to skip if equal, and if not.
  std::array<sock_filter, 5> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

}  // namespace hbmwire::test
