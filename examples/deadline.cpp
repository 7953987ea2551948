// SPDX-License-Identifier: MIT
// Polls a transfer without waiting, waits with a deadline, and ends a transfer that is no longer
// wanted.
//
//   node2$ deadline listen 7000
//   node1$ deadline node2:7000
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBytes = 64;
constexpr std::byte kQuestion{42};
constexpr std::byte kAnswer{43};

void fill(const Region& memory, std::byte value) { std::ranges::fill(memory.host_bytes(), value); }

/// Whether all of the memory has this value.
bool has_come(const Transfer& received, const Region& memory, std::byte value) {
  return received.bytes() == kBytes &&
         std::ranges::equal(memory.host_bytes(), std::vector(kBytes, value));
}

Result<bool> impatient(Endpoint& peer, Worker& worker, const Region& memory) {
  // No message was sent, so the receive is cancelled at the deadline. No message has matched it
  // either, so the connection goes on. The deadline of any other transfer would end the connection.
  HBMWIRE_TRY_ASSIGN(Transfer early, peer.receive(memory.slice()));
  const auto waited = early.wait(50ms);
  if (waited || waited.error().code != Errc::timed_out) return false;
  std::printf("%s\n", describe(waited.error()).c_str());

  HBMWIRE_TRY_ASSIGN(Transfer unwanted, peer.receive(memory.slice()));
  HBMWIRE_TRY(unwanted.cancel());

  fill(memory, kQuestion);
  HBMWIRE_TRY_ASSIGN(Transfer told, peer.send(memory.slice()));
  HBMWIRE_TRY(told.wait(10s));
  HBMWIRE_TRY_ASSIGN(Transfer answer, peer.receive(memory.slice()));
  while (true) {
    HBMWIRE_TRY_ASSIGN(const bool over, answer.poll());  // drives the worker; never blocks
    if (over) break;
    HBMWIRE_TRY(worker.wait(10s));  // or do something else meanwhile
  }
  HBMWIRE_TRY(peer.close(10s));
  return has_come(answer, memory, kAnswer);
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const Region memory,
                     context.allocate_region(MemoryType::host, kBytes, Access::local_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s));
    return impatient(peer, worker, memory);
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  HBMWIRE_TRY_ASSIGN(Transfer question, peer.receive(memory.slice()));
  HBMWIRE_TRY(question.wait(10s));
  const bool right = has_come(question, memory, kQuestion);
  fill(memory, kAnswer);
  HBMWIRE_TRY_ASSIGN(Transfer answer, peer.send(memory.slice()));
  HBMWIRE_TRY(answer.wait(10s));
  HBMWIRE_TRY(peer.wait_closed(10s));
  std::printf("%s\n", right ? "verified" : "other bytes than were sent");
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: deadline listen PORT | deadline NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "deadline: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
