// SPDX-License-Identifier: MIT
// Several threads use one endpoint, while a thread of the library makes progress.
//
//   node2$ threads listen 7000
//   node1$ threads node2:7000
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kThreads = 4;
constexpr std::uint64_t kMessages = 50;
constexpr std::uint64_t kBytes = 64;

/// Thread `i` sends or receives messages with tag `i`, in its own part of the memory. All bytes of
/// a message have one value, which tells the thread and the message.
Result<bool> work(Endpoint& peer, const Region& memory, std::uint64_t i, bool sends) {
  const auto mine = memory.slice(i * kBytes, kBytes);
  const auto bytes = memory.host_bytes().subspan(i * kBytes, kBytes);
  for (std::uint64_t at = 0; at < kMessages; ++at) {
    const auto value = static_cast<std::byte>(i * kMessages + at + 1);
    if (sends) std::ranges::fill(bytes, value);
    auto message = sends ? peer.send(mine, i) : peer.receive(mine, {.tag = i});
    if (!message) return tl::make_unexpected(message.error());
    HBMWIRE_TRY(message->wait(10s));
    if (message->bytes() != kBytes) return false;
    if (!std::ranges::equal(bytes, std::vector(kBytes, value))) return false;
  }
  return true;
}

bool work_in_threads(Endpoint& peer, const Region& memory, bool sends) {
  std::atomic<std::uint64_t> good{0};
  {
    std::array<std::jthread, kThreads> threads;
    for (std::uint64_t i = 0; i < kThreads; ++i) {
      threads.at(i) =
          std::jthread([&, i] { good += work(peer, memory, i, sends).value_or(false) ? 1 : 0; });
    }
  }
  return good == kThreads;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context, {.progress_thread = true}));
  HBMWIRE_TRY_ASSIGN(
      const Region memory,
      context.allocate_region(MemoryType::host, kThreads * kBytes, Access::local_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s));
    const bool sent = work_in_threads(peer, memory, true);
    HBMWIRE_TRY(peer.close(10s));
    return sent;
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  const bool received = work_in_threads(peer, memory, false);
  HBMWIRE_TRY(peer.wait_closed(10s));
  std::printf("%s\n",
              received ? "verified" : "a thread failed, or received other bytes than were sent");
  return received;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: threads listen PORT | threads NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "threads: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
