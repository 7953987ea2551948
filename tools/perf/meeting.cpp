// SPDX-License-Identifier: MIT
#include "tools/perf/meeting.hpp"

#include <algorithm>

#include "hbmwire/context.hpp"
#include "hbmwire/path.hpp"
#include "hbmwire/worker.hpp"

namespace hbmwire::tools::perf {

Outcome<Group> meet(const std::string& address, std::chrono::seconds patience, int cancel_fd) {
  const PathPolicy tcp_alone{.require = Path::tcp, .allow = {Path::tcp}};
  HBMWIRE_TRY_ASSIGN(
      const Context context,
      Context::create({.memory = {MemoryType::host}, .nics = {"none"}, .paths = tcp_alone}));
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  constexpr std::chrono::seconds kStart{60};
  const Wait wait{Deadline::after(std::max(kStart, patience)), cancel_fd};
  HBMWIRE_TRY_ASSIGN(Group group, Group::create(worker, wait, {.address = address}));
  if (group.size() > 1) return group;
  return fail(
      "configure: the group has one rank, and no pairs; have the launcher start two or more "
      "(docs/launchers/README.md)",
      kExitUsage);
}

}  // namespace hbmwire::tools::perf
