// SPDX-License-Identifier: MIT
// Each end tells in the handshake its name and version. The listener therefore knows a peer before
// any message comes, and closes the connection of a peer with another version.
//
//   node2$ hello listen 7000
//   node1$ hello node2:7000
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

const std::vector<std::byte> kContents(64, std::byte{42});

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// The printable characters of bytes that a stranger may have sent.
std::string text_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const char letter = static_cast<char>(byte);
    text += letter >= ' ' && letter <= '~' ? letter : '?';
  }
  return text;
}

Result<bool> connect(const Worker& worker, const std::string& node, const Region& memory) {
  HBMWIRE_TRY_ASSIGN(const Endpoint old,
                     Endpoint::connect(worker, node, 10s, {.hello = bytes_of("version 1")}));
  HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, node, 10s,
                                                      {.hello = bytes_of("version 2, rank 3")}));
  std::printf("connected to %s\n", text_of(peer.peer_hello()).c_str());
  std::ranges::copy(kContents, memory.host_bytes().begin());
  HBMWIRE_TRY_ASSIGN(Transfer sent, peer.send(memory.slice()));
  HBMWIRE_TRY(sent.wait(10s));
  HBMWIRE_TRY(peer.close(10s));
  return true;
}

/// Accepts the next peer of this version. Returns its name.
Result<std::string> accept(Listener& listener, std::optional<Endpoint>& peer) {
  constexpr std::string_view kVersion = "version 2, ";
  while (true) {
    HBMWIRE_TRY_ASSIGN(peer, listener.accept(30s));
    const std::string said = text_of(peer->peer_hello());
    if (said.starts_with(kVersion)) return said.substr(kVersion.size());
    std::printf("%s is let go: it says \"%s\"\n", peer->peer().c_str(), said.c_str());
  }
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(
      const Region memory,
      context.allocate_region(MemoryType::host, kContents.size(), Access::local_write));
  if (arguments.front() != "listen") return connect(worker, arguments.front(), memory);
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(
      Listener listener,
      Listener::create(worker,
                       {.port = port, .endpoint = {.hello = bytes_of("version 2, server")}}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  std::optional<Endpoint> peer;
  HBMWIRE_TRY_ASSIGN(const std::string name, accept(listener, peer));
  std::printf("accepted %s\n", name.c_str());
  HBMWIRE_TRY_ASSIGN(Transfer received, peer->receive(memory.slice()));
  HBMWIRE_TRY(received.wait(10s));
  const bool right =
      received.bytes() == kContents.size() && std::ranges::equal(memory.host_bytes(), kContents);
  HBMWIRE_TRY(peer->wait_closed(30s));
  std::printf("%s\n", right ? "verified" : "other bytes than were sent");
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: hello listen PORT | hello NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "hello: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
