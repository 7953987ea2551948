// SPDX-License-Identifier: MIT
#include "way.hpp"

#include "tests/endpoint/ends.hpp"

namespace hbmwire::test {

namespace {

/// Between memories of one process an engine comes first, unless the policy leaves it out.
const PathPolicy kNoEngine{
    .require = {},
    .allow = {Path::host, Path::zero_copy, Path::peer_memory, Path::staged, Path::tcp}};
/// The peer's engine comes first if a policy names it.
const PathPolicy kPeersEngine{
    .require = {},
    .allow = {Path::host, Path::zero_copy, Path::peer_memory, Path::staged, Path::tcp, Path::ipc}};

std::vector<Way> all_ways() {
  using enum MemoryType;
  return {
      {.name = "nic", .here = host, .there = host, .paths = kNoEngine, .path = Path::host},
      {.name = "loopback",
       .here = gaudi,
       .there = cuda,
       .paths = kNoEngine,
       .path = Path::nic_loopback},
      {.name = "staged_here",
       .here = cuda,
       .there = host,
       .nics = {"emu1"},
       .paths = kNoEngine,
       .path = Path::staged,
       .lists = false},
      {.name = "staged_there",
       .here = host,
       .there = gaudi,
       .peers_nics = {"emu1"},
       .paths = kNoEngine,
       .path = Path::staged,
       .lists = false,
       .atomics = false},
      {.name = "staged_both",
       .here = cuda,
       .there = gaudi,
       .nics = {"emu1"},
       .peers_nics = {"emu1"},
       .two_processes = true,
       .path = Path::staged,
       .lists = false,
       .messages = false,
       .atomics = false},
      {.name = "copy", .here = host, .there = cuda, .path = Path::copy},
      {.name = "copy_from_device", .here = cuda, .there = host, .path = Path::copy},
      {.name = "ipc",
       .here = cuda,
       .there = cuda,
       .two_processes = true,
       .paths = kPeersEngine,
       .path = Path::ipc},
      {.name = "shared_memory",
       .here = host,
       .there = host,
       .two_processes = true,
       .path = Path::shared_memory},
      {.name = "private_memory",
       .here = host,
       .there = host,
       .two_processes = true,
       .path = Path::shared_memory,
       .shared = false},
      {.name = "shared_memory_without_nic",
       .here = host,
       .there = host,
       .nics = {"none"},
       .peers_nics = {"none"},
       .two_processes = true,
       .path = Path::shared_memory},
      {.name = "rails",
       .here = gaudi,
       .there = host,
       .nics = {"emu0", "emu2"},
       .peers_nics = {"emu0", "emu2"},
       .paths = kNoEngine,
       .path = Path::nic_loopback},
      {.name = "tcp",
       .here = host,
       .there = host,
       .nics = {"none"},
       .peers_nics = {"none"},
       .paths = kNoEngine,
       .path = Path::tcp},
      {.name = "tcp_device",
       .here = cuda,
       .there = host,
       .nics = {"none"},
       .peers_nics = {"none"},
       .paths = kNoEngine,
       .path = Path::tcp,
       .lists = false},
  };
}

}  // namespace

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

std::span<const Way> ways() {
  static const std::vector<Way> all = all_ways();
  return all;
}

Allocation allocate_for(const Context& context, const Way& way, MemoryType type,
                        std::uint64_t bytes) {
  const bool shared = way.shared && type == MemoryType::host &&
                      (way.path == Path::ipc || way.path == Path::shared_memory);
  return value(context.allocate(type, bytes, {.device = {}, .host = {.shared = shared}}));
}

}  // namespace hbmwire::test
