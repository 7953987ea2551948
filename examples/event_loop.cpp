// SPDX-License-Identifier: MIT
// A worker in the application's own event loop: poll(2) on its descriptor.
//
//   node2$ event_loop listen 7000
//   node1$ event_loop node2:7000
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

const std::vector<std::byte> kContents(64, std::byte{42});

/// One round of the loop: does all work, then sleeps until there is more.
Result<void> turn(Worker& worker) {
  while (worker.progress() != 0) {
  }
  HBMWIRE_TRY_ASSIGN(const bool idle, worker.arm());
  if (!idle) return {};  // something has just come
  pollfd entries[] = {{.fd = worker.fd(), .events = POLLIN, .revents = 0}};  // add the loop's other
                                                                             // descriptors here
  ::poll(entries, 1, static_cast<int>(worker.wake_after().count()));
  return {};
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const auto memory, context.allocate_region(MemoryType::host, kContents.size(),
                                                                Access::local_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s));
    std::ranges::copy(kContents, memory.host_bytes().begin());
    HBMWIRE_TRY_ASSIGN(Transfer sent, peer.send(memory.slice()));
    while (!sent.done()) HBMWIRE_TRY(turn(worker));
    HBMWIRE_TRY(sent.poll());  // gives the error if it failed
    HBMWIRE_TRY(peer.close(10s));
    return true;
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  auto peer = listener.try_accept();
  for (; !peer; peer = listener.try_accept()) HBMWIRE_TRY(turn(worker));
  HBMWIRE_TRY_ASSIGN(Transfer received, peer->receive(memory.slice()));
  while (!received.done()) HBMWIRE_TRY(turn(worker));
  HBMWIRE_TRY(received.poll());
  const bool right =
      received.bytes() == kContents.size() && std::ranges::equal(memory.host_bytes(), kContents);
  HBMWIRE_TRY(peer->wait_closed(10s));
  std::printf("%s\n", right ? "verified" : "other bytes than were sent");
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: event_loop listen PORT | event_loop NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "event_loop: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
