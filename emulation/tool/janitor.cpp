// SPDX-License-Identifier: MIT
#include "emulation/tool/janitor.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "emulation/tool/fabric_directory.hpp"
#include "emulation/tool/host_nodes.hpp"
#include "emulation/tool/node_directory.hpp"

namespace hbmwire::emulation::tool {
namespace {

using namespace std::chrono_literals;

// If the janitor kept a pipe or a directory open, programs that wait for the end of its caller
// would wait for the janitor.
void let_go_of_everything() {
  ::setsid();
  if (::chdir("/") != 0) ::_exit(1);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
  ::prctl(PR_SET_NAME, "hbmwire-janitor");
  ::syscall(SYS_close_range, 3U, ~0U, 0U);
}

// Retries, because an ending process closes its files one by one, and another world's janitor may
// hold a lock for an instant.
template <class Attempt>
bool try_for(std::chrono::milliseconds time, Attempt attempt) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (!attempt()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

[[noreturn]] void keep_watch(const emulation::World& world) {
  do {
    // The lock can be taken once no process of the node holds its shared one.
    const auto last_one_is_gone = lock_exclusively(users_file(world.node), Wait::yes, false);
    if (!last_one_is_gone) break;
  } while (!remove_if_unused(world));
  try_for(1s, remove_host_nodes_if_unused);
  ::_exit(0);
}

}  // namespace

pid_t start_janitor(const emulation::World& world) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
  const Fd settled{ends[0]};
  Fd not_settled{ends[1]};
  const pid_t janitor = ::fork();
  if (janitor == 0) {
    let_go_of_everything();
    keep_watch(world);
  }
  // The janitor must have left this process group before COMMAND can be killed together with the
  // group. It closes its end of the pipe after that, with all its files.
  not_settled.reset();
  char nothing = 0;
  while (janitor > 0 && ::read(settled.get(), &nothing, 1) < 0 && errno == EINTR) {
  }
  return janitor;
}

void stop_janitor(pid_t janitor) {
  if (janitor <= 0) return;
  ::kill(janitor, SIGKILL);
  while (::waitpid(janitor, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool clean_up(const emulation::World& world) {
  const bool removed = try_for(50ms, [&] { return remove_if_unused(world); });
  if (removed) try_for(50ms, remove_host_nodes_if_unused);
  return removed;
}

}  // namespace hbmwire::emulation::tool
