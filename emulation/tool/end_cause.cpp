// SPDX-License-Identifier: MIT
#include "emulation/tool/end_cause.hpp"

#include <fmt/core.h>
#include <sys/statvfs.h>

#include <csignal>
#include <fstream>
#include <utility>

#include "emulation/tool/child.hpp"

namespace hbmwire::emulation::tool {
namespace {

// When the cause is looked for, COMMAND's own files are gone, but those of its cards are not. So a
// file system that was full then is still nearly full: it has at most this much free, or an eighth.
constexpr std::uint64_t kNearlyNothing = 16ULL << 20U;

constexpr const char* kRemedy = "ask for less card memory, or choose a place on a disk with --dir";

}  // namespace

EndCause::EndCause(std::filesystem::path world, std::filesystem::path vmstat)
    : world_(std::move(world)), vmstat_(std::move(vmstat)), kills_before_(kills()) {}

std::uint64_t EndCause::kills() const {
  std::ifstream file(vmstat_);
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

std::string EndCause::explain(int exit_code) const {
  if (exit_code == kExitSignalled + SIGBUS) return explain_bus_error();
  if (exit_code != kExitSignalled + SIGKILL || kills() == kills_before_) return {};
  return fmt::format(
      "COMMAND was killed (SIGKILL) when the kernel had no memory left for it: what is written to "
      "emulated cards in {} counts as memory of this container or cgroup; raise its limit "
      "(`docker run --memory`, memory.max, memory.limit_in_bytes), {}",
      world_.string(), kRemedy);
}

std::string EndCause::explain_bus_error() const {
  struct statvfs info {};

  if (::statvfs(world_.c_str(), &info) != 0 || info.f_blocks == 0) return {};
  const auto free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  const auto all = static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize;
  if (free > kNearlyNothing && free > all / 8) return {};
  return fmt::format(
      "COMMAND was ended by SIGBUS, as by a write to emulated cards in {} where {} of {} MiB are "
      "free; start the container with --shm-size=8g, {}",
      world_.string(), free >> 20U, all >> 20U, kRemedy);
}

}  // namespace hbmwire::emulation::tool
