// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "raw_gaudi.hpp"
#include "tools/wire/control_channel.hpp"
#include "tools/wire/control_listener.hpp"

// One SEND, one RDMA WRITE and one RDMA READ between cards, with bytes that no CPU of either guest
// touches: the host puts them into one card's memory and finds them in the other's. Prints the
// place of each part in the BAR. Runs in two guests: tests/kernel.
namespace hbmwire::test {
namespace {

namespace wire = tools::wire;

constexpr std::uint64_t kLength = 300'000;

/// The parts of each card's memory. The first page is left to later users of the card. The second
/// part lies in two pages that are not contiguous in the BAR.
struct Part {
  const char* name;
  std::uint64_t offset;
};

constexpr Part kSend{"send", kCardPage + 1000};
constexpr Part kWrite{"write", 3 * kCardPage - 123'456};
constexpr Part kRead{"read", 3 * kCardPage + 500'000};

Wait soon() { return {Deadline::after(std::chrono::seconds(60)), -1}; }

void show(const Region& region, const Part& part) {
  for (std::uint64_t from = 0, length = 0; from < kLength; from += length) {
    const std::uint64_t address = region.address() + part.offset + from;
    length = std::min(kLength - from, kCardPage - address % kCardPage);
    std::printf("PART %s %lld %llu\n", part.name, static_cast<long long>(bar_offset(address)),
                static_cast<unsigned long long>(length));
  }
}

Result<wire::ControlChannel> meet(std::string_view role, const char* host) {
  constexpr std::uint16_t kPort = 7200;
  if (role == "connect") return wire::ControlChannel::connect(host, kPort, soon());
  HBMWIRE_TRY_ASSIGN(wire::ControlListener listener, wire::ControlListener::listen(host, kPort));
  std::puts("Listening.");
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(wire::ControlListener::Accepted accepted, listener.accept(soon()));
  return wire::ControlChannel::accept(std::move(accepted.socket), accepted.peer, soon());
}

Result<void> complete(Connection& connection, unsigned count) {
  for (unsigned done = 0; done < count; ++done) HBMWIRE_TRY(connection.wait(soon()));
  return {};
}

Result<void> transfer(Connection& connection, const Region& region, const RemoteMemory& theirs) {
  const auto slice = [&](const Part& part) { return Slice{&region, part.offset, kLength}; };
  HBMWIRE_TRY_ASSIGN(const RemoteMemory written, theirs.slice(kWrite.offset, kLength));
  HBMWIRE_TRY_ASSIGN(const RemoteMemory read, theirs.slice(kRead.offset, kLength));
  HBMWIRE_TRY(connection.post_send(1, slice(kSend)));
  HBMWIRE_TRY(connection.post_write(2, slice(kWrite), written));
  HBMWIRE_TRY(connection.post_read(3, slice(kRead), read));
  return complete(connection, 3);
}

Result<void> run(std::string_view role, const char* host) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const auto card, context.open(MemoryType::gaudi));
  HBMWIRE_TRY_ASSIGN(const Nic nic, Nic::open());
  HBMWIRE_TRY_ASSIGN(const Allocation memory, card->allocate(4 * kCardPage));
  HBMWIRE_TRY_ASSIGN(const Region region,
                     nic.register_memory(memory, Access::remote_write | Access::remote_read));
  HBMWIRE_TRY_ASSIGN(Connection connection, Connection::create(nic, {}));
  HBMWIRE_TRY_ASSIGN(wire::ControlChannel control, meet(role, host));
  if (role == "listen") {
    const Slice arrival{&region, kSend.offset, kLength};
    HBMWIRE_TRY(connection.post_receive(1, arrival));
  }
  HBMWIRE_TRY(control.send(wire::Address{connection.local(), region.remote()}, soon()));
  HBMWIRE_TRY_ASSIGN(const auto theirs, control.expect<wire::Address>(soon()));
  HBMWIRE_TRY(connection.connect(theirs.connection));
  // Both sides must be ready before the first message: an earlier one would be lost, and
  // retransmitted only a while later.
  HBMWIRE_TRY(control.send(wire::Ready{1}, soon()));
  HBMWIRE_TRY(control.expect<wire::Ready>(soon()));
  HBMWIRE_TRY(role == "connect" ? transfer(connection, region, theirs.memory)
                                : complete(connection, 1));
  HBMWIRE_TRY(control.send(wire::Ready{2}, soon()));
  HBMWIRE_TRY(control.expect<wire::Ready>(soon()));
  for (const Part& part : {kSend, kWrite, kRead}) show(region, part);
  return {};
}

}  // namespace
}  // namespace hbmwire::test

// gaudi_peer listen|connect <address of the listener>
int main(int count, char** words) {
  if (count != 3) return 2;
  const auto done = hbmwire::test::run(words[1], words[2]);
  if (done) return 0;
  std::fprintf(stderr, "%s\n", hbmwire::describe(done.error()).c_str());
  return 1;
}
