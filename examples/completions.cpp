// SPDX-License-Identifier: MIT
// Many transfers under way, and one call that tells which are over: Worker::next_done().
//
//   node2$ completions listen 7000
//   node1$ completions node2:7000
#include <poll.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMessages = 1000;
constexpr std::uint64_t kBytes = sizeof(std::uint64_t);

/// The next transfer that is over; sleeps until there is one.
Result<Done> next(Worker& worker) {
  for (;;) {
    if (auto done = worker.next_done()) return std::move(*done);
    HBMWIRE_TRY_ASSIGN(const bool idle, worker.arm());
    if (!idle) continue;  // something has just come
    pollfd entry{.fd = worker.fd(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, static_cast<int>(worker.wake_after().count()));
  }
}

/// Starts one transfer for each message, with the message's number as cookie, and asks to be told
/// of its end.
template <class Start>
Result<void> start_all(const Start& start) {
  for (std::uint64_t number = 0; number < kMessages; ++number) {
    HBMWIRE_TRY_ASSIGN(Transfer transfer, start(number));
    transfer.notify(number);  // the handle may go now
  }
  return {};
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(
      const auto memory,
      context.allocate_region(MemoryType::host, kMessages * kBytes, Access::local_write));
  const auto slice = [&](std::uint64_t number) { return memory.slice(number * kBytes, kBytes); };
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s));
    HBMWIRE_TRY(start_all([&](std::uint64_t number) {
      std::memcpy(memory.host_bytes().data() + number * kBytes, &number, kBytes);
      return peer.send(slice(number), number);  // the number is also the tag
    }));
    for (std::uint64_t over = 0; over < kMessages; ++over) {
      HBMWIRE_TRY_ASSIGN(const Done done, next(worker));
      HBMWIRE_TRY(done.result);
    }
    HBMWIRE_TRY(peer.close(10s));
    return true;
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(60s));
  HBMWIRE_TRY(start_all(
      [&](std::uint64_t number) { return peer.receive(slice(number), {.tag = number}); }));
  std::uint64_t right = 0;
  for (std::uint64_t over = 0; over < kMessages; ++over) {
    HBMWIRE_TRY_ASSIGN(const Done done, next(worker));
    HBMWIRE_TRY(done.result);
    std::uint64_t number = 0;
    std::memcpy(&number, memory.host_bytes().data() + done.cookie * kBytes, kBytes);
    if (done.value == done.cookie && number == done.cookie) ++right;
  }
  HBMWIRE_TRY(peer.wait_closed(10s));
  std::printf("verified %llu of %llu messages\n", static_cast<unsigned long long>(right),
              static_cast<unsigned long long>(kMessages));
  return right == kMessages;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: completions listen PORT | completions NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "completions: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
