// SPDX-License-Identifier: MIT
// A server that answers requests of many clients in one thread. It cannot know which client asks
// next, or how much. It identifies each client by its hello from the handshake, and polls no
// transfer.
//
//   node2$ request_server listen 7000
//   node1$ request_server node2:7000
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kClients = 200;
constexpr std::size_t kRequests = 5;    // of each client
constexpr std::size_t kBytes = 128;     // of each answer
constexpr std::size_t kAnswers = 1000;  // under way at a time

std::string text_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += static_cast<char>(byte);
  return text;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// Sleeps until there is something to do.
Result<void> sleep(Worker& worker) {
  HBMWIRE_TRY_ASSIGN(const bool idle, worker.arm());
  pollfd entry{.fd = worker.fd(), .events = POLLIN, .revents = 0};
  if (idle) ::poll(&entry, 1, static_cast<int>(worker.wake_after().count()));
  return {};
}

Result<bool> serve(Worker& worker, Listener& listener, const Region& memory) {
  std::map<std::uint64_t, Endpoint> clients;
  std::vector<std::size_t> free;  // places for answers in `memory`
  for (std::size_t place = 0; place < kAnswers; ++place) free.push_back(place);
  std::size_t answered = 0;
  while (answered < kClients * kRequests) {
    while (!free.empty()) {
      const auto request = worker.next_message();
      while (auto client = listener.try_accept()) {
        const auto id = client->id();
        clients.emplace(id, std::move(*client));
      }
      if (!request) break;
      Endpoint& client = clients.at(request->endpoint_id());
      const auto answer = bytes_of(text_of(client.peer_hello()) + ": " + text_of(request->bytes()));
      const std::size_t at = free.back() * kBytes;
      std::ranges::copy(answer, memory.host_bytes().begin() + static_cast<std::ptrdiff_t>(at));
      auto sent = client.send(memory.slice(at, answer.size()), request->tag().value_or(0));
      if (!sent) continue;  // the client has gone
      sent->notify(free.back());
      free.pop_back();
    }  // `request` ends here, which frees its place for another message
    while (const auto done = worker.next_done()) {
      HBMWIRE_TRY(done->result);
      free.push_back(done->cookie);
      ++answered;
    }
    HBMWIRE_TRY(sleep(worker));
  }
  std::printf("%zu clients had %zu answers\n", clients.size(), answered);
  for (auto& [id, client] : clients) HBMWIRE_TRY(client.wait_closed(10s));
  return true;
}

/// Many clients, each with a connection of its own.
Result<bool> ask(const Worker& worker, const std::string& server, const Region& memory) {
  std::vector<Endpoint> clients;
  while (clients.size() < kClients) {
    const std::string name = "client " + std::to_string(clients.size());
    HBMWIRE_TRY_ASSIGN(Endpoint client,
                       Endpoint::connect(worker, server, 10s, {.hello = bytes_of(name)}));
    clients.push_back(std::move(client));
  }
  std::size_t right = 0;
  const auto question = memory.slice(0, 10);
  for (std::size_t number = 0; number < kRequests; ++number) {
    std::ranges::copy(bytes_of("question " + std::to_string(number)), memory.host_bytes().begin());
    for (std::size_t i = 0; i < kClients; ++i) {
      HBMWIRE_TRY_ASSIGN(auto answer, clients[i].receive(memory.slice(kBytes, kBytes), {.tag = i}));
      HBMWIRE_TRY_ASSIGN(auto asked, clients[i].send(question, i));
      HBMWIRE_TRY(answer.wait(10s));
      HBMWIRE_TRY(asked.wait(10s));
      const std::string said = text_of(memory.host_bytes().subspan(kBytes, answer.bytes()));
      if (said == "client " + std::to_string(i) + ": question " + std::to_string(number)) ++right;
    }
  }
  for (Endpoint& client : clients) HBMWIRE_TRY(client.close(10s));
  std::printf("verified %zu answers\n", right);
  return right == kClients * kRequests;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(
      const Region memory,
      context.allocate_region(MemoryType::host, kAnswers * kBytes, Access::local_write));
  if (arguments.front() != "listen") return ask(worker, arguments.front(), memory);
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(
      Listener listener,
      Listener::create(worker, {.port = port, .endpoint = {.messages = MessageMode::handed_out}}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  return serve(worker, listener, memory);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: request_server listen PORT | request_server NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "request_server: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
