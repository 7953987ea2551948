// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "subject.hpp"

// Random plans of failures of an endpoint, under `hbmwire emulate`:
//
//     endpoint_fault_plans [--plans N] [--seed S]
//
// The peer is a process of this program (`--peer`, which subject.hpp describes), or of the program
// in HBMWIRE_TEST_PEER.
//
// The NIC moves host memory. With HBMWIRE_NICS=emu0,emu1 (`emulate --nics 2`) both NICs carry
// transfers, and either link goes down. With HBMWIRE_PATHS=host,shared_memory, puts, gets and
// messages use shared memory, and the NIC carries lists, atomics and the control lane. Plan i uses
// the seed S + i, which determines all of it. A plan that fails prints its seed; `--plans 1 --seed
// <it>` replays it.
namespace {

using namespace std::chrono_literals;
using hbmwire::test::kGuardBytes;
using hbmwire::test::kSlotBytes;
using hbmwire::test::kSlots;

constexpr auto kLongest = 60s;  // for a plan; the plan checks its own shorter limits

/// Maps a memfd, which already has the right size, or gets it.
hbmwire::test::Shared map_shared(int file) {
  const std::uint64_t target = kSlots * kSlotBytes;
  const std::uint64_t inbox = hbmwire::test::kInboxSlots * kSlotBytes;
  const std::uint64_t size = 3 * kGuardBytes + target + inbox;
  if (::ftruncate(file, static_cast<off_t>(size)) != 0) std::abort();
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) std::abort();
  hbmwire::test::Shared shared;
  shared.file = file;
  shared.all = {static_cast<std::byte*>(at), size};
  shared.target = shared.all.subspan(kGuardBytes, target);
  shared.inbox = shared.all.subspan(2 * kGuardBytes + target, inbox);
  return shared;
}

const char* peer_program() {
  const char* const named = std::getenv("HBMWIRE_TEST_PEER");
  return named != nullptr ? named : "/proc/self/exe";
}

int run_as_peer(char** arguments) {
  const auto number = [&](int i) {
    return static_cast<int>(std::strtol(arguments[i], nullptr, 0));
  };
  const int commands = number(0);
  const int memory = number(1);
  for (const int fd : {commands, memory}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const hbmwire::test::PeerPlan plan{.peer_timeout_ms = static_cast<unsigned>(number(2)),
                                     .inbox_is_open = number(3) != 0,
                                     .calls_fail = number(4) != 0,
                                     .has_shared_memory = arguments[5] != nullptr};
  return hbmwire::test::run_peer(plan, map_shared(memory), commands);
}

/// Runs in a process of its own, because the emulated NIC reads its plan when it is opened.
[[noreturn]] void run_plan(std::uint64_t seed) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const hbmwire::test::Scenario scenario(seed);
  const char* const fabric = std::getenv("HBMWIRE_EMULATION_FABRIC");
  if (fabric == nullptr) {
    std::fprintf(stderr, "run it under: hbmwire emulate --nics 1 --gaudi 0 -- ...\n");
    ::_exit(2);
  }
  // The counts of an earlier plan.
  ::unlink((std::string(fabric) + "/faults").c_str());
  if (!scenario.rules.empty()) ::setenv("HBMWIRE_EMULATION_FAULTS", scenario.rules.c_str(), 1);
  ::_exit(hbmwire::test::run_subject(seed, map_shared(::memfd_create("fault_plans", MFD_CLOEXEC)),
                                     peer_program()));
}

bool passes(std::uint64_t seed) {
  const pid_t process = ::fork();
  if (process == 0) run_plan(seed);
  const auto until = std::chrono::steady_clock::now() + kLongest;
  int status = 0;
  while (::waitpid(process, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(2ms);
    if (std::chrono::steady_clock::now() < until) continue;
    std::fprintf(stderr, "  hung\n");
    ::kill(-process, SIGKILL);
    ::waitpid(process, &status, 0);
    return false;
  }
  if (WIFSIGNALED(status)) std::fprintf(stderr, "  signal %d\n", WTERMSIG(status));
  ::kill(-process, SIGKILL);  // a peer that it left behind
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

int main(int count, char** arguments) {
  ::setenv("HBMWIRE_PATHS", "host", 0);
  if (count >= 7 && arguments[1] == std::string_view("--peer")) return run_as_peer(arguments + 2);
  unsigned long plans = 50;
  unsigned long long seed = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view name = arguments[i];
    if (name == "--plans") plans = std::strtoul(arguments[i + 1], nullptr, 0);
    if (name == "--seed") seed = std::strtoull(arguments[i + 1], nullptr, 0);
  }
  unsigned long failed = 0;
  for (unsigned long i = 0; i < plans; ++i) {
    if (passes(seed + i)) continue;
    ++failed;
    std::printf("plan failed; again: --plans 1 --seed %llu\n", seed + i);
    std::fflush(stdout);
  }
  std::printf("%lu plans from seed %llu, %lu failed\n", plans, seed, failed);
  return failed == 0 ? 0 : 1;
}
