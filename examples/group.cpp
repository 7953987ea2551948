// SPDX-License-Identifier: MIT
// The processes that a launcher has started meet, and rank 0's bytes go to all of them. Nothing
// here names the launcher: docs/launchers has a page for each.
//
//   mpirun -n 4 group            srun -n 4 group            torchrun --nproc-per-node 4 --no-python
//   group
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <hbmwire/group.hpp>
#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

Result<void> run(std::size_t bytes) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(Group group, Group::create(worker, 60s));
  HBMWIRE_TRY_ASSIGN(const Region memory,
                     context.allocate_region(MemoryType::host, bytes, Access::remote_write));

  const auto all_are = [&](std::byte value) {
    return std::ranges::all_of(memory.host_bytes(), [&](std::byte byte) { return byte == value; });
  };
  std::ranges::fill(memory.host_bytes(), group.rank() == 0 ? std::byte{42} : std::byte{0});
  HBMWIRE_TRY(group.broadcast(memory.slice(), 0, 60s));
  std::printf("rank %u of %u, met by %s: %zu bytes %s\n", group.rank(), group.size(),
              group.launcher().c_str(), bytes, all_are(std::byte{42}) ? "verified" : "differ");
  return group.barrier(60s);
}

}  // namespace

int main(int count, char** arguments) {
  const std::size_t bytes = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1048576;
  const auto done = run(bytes);
  if (!done) std::fprintf(stderr, "group: %s\n", describe(done.error()).c_str());
  return done ? 0 : 1;
}
