// SPDX-License-Identifier: MIT
#include "emulation/tool/netlink_filter.hpp"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hbmwire::emulation::tool {
namespace {

bool opens(int domain, int type, int protocol) {
  const int fd = ::socket(domain, type, protocol);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

/// Blocks a protocol in a child. Returns 0 if that blocks nothing else, otherwise the number of the
/// step that went wrong.
int first_wrong_step(bool as_nobody) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (as_nobody && ::setuid(65534) != 0) ::_exit(10);
    // A protocol that every kernel has stands for NETLINK_RDMA, which this one may lack.
    if (!opens(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE)) ::_exit(11);
    if (!block_netlink(NETLINK_ROUTE)) ::_exit(12);
    if (opens(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) || errno != EPROTONOSUPPORT) ::_exit(13);
    if (opens(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) ::_exit(14);
    if (!opens(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC)) ::_exit(15);
    // NETLINK_ROUTE is 0, as is the protocol of these sockets of other domains.
    if (!opens(AF_UNIX, SOCK_STREAM, 0) || !opens(AF_INET, SOCK_STREAM, 0)) ::_exit(16);
    ::execlp("true", "true", nullptr);
    ::_exit(17);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TEST(NetlinkFilter, BlocksOneProtocolAndNothingElse) { EXPECT_EQ(first_wrong_step(false), 0); }

TEST(NetlinkFilter, NeedsNoPrivilege) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root has a privilege to drop: the other test ran without";
  EXPECT_EQ(first_wrong_step(true), 0);
}

}  // namespace
}  // namespace hbmwire::emulation::tool
