// SPDX-License-Identifier: MIT
// Accepts only peers that know a secret, and proves to them that this side knows it, too.
//
//   node2$ pre_shared_key listen 7000
//   node1$ pre_shared_key node2:7000
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

const std::vector<std::byte> kContents(64, std::byte{42});

/// (A real key comes from a file. HBMWIRE_PRE_SHARED_KEY_FILE needs no code at all.)
std::vector<std::byte> key_of(std::string_view secret) {
  const auto* const begin = reinterpret_cast<const std::byte*>(secret.data());
  return {begin, begin + secret.size()};
}

Result<bool> connect(const Worker& worker, const std::string& node, const Region& memory) {
  const auto refused =
      Endpoint::connect(worker, node, 10s, {.pre_shared_key = key_of("a guess at the secret")});
  if (refused || refused.error().code != Errc::permission_denied) return false;
  std::printf("%s\n", describe(refused.error()).c_str());
  HBMWIRE_TRY_ASSIGN(
      Endpoint peer,
      Endpoint::connect(worker, node, 10s, {.pre_shared_key = key_of("not to be told to anyone")}));
  std::ranges::copy(kContents, memory.host_bytes().begin());
  HBMWIRE_TRY_ASSIGN(Transfer sent, peer.send(memory.slice()));
  HBMWIRE_TRY(sent.wait(10s));
  HBMWIRE_TRY(peer.close(10s));
  return true;
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
      Listener::create(
          worker,
          {.port = port, .endpoint = {.pre_shared_key = key_of("not to be told to anyone")}}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  // While this waits, a peer that does not know the secret is refused, and that is logged.
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  HBMWIRE_TRY_ASSIGN(Transfer received, peer.receive(memory.slice()));
  HBMWIRE_TRY(received.wait(10s));
  const bool right =
      received.bytes() == kContents.size() && std::ranges::equal(memory.host_bytes(), kContents);
  HBMWIRE_TRY(peer.wait_closed(30s));
  std::printf("%s\n", right ? "verified" : "other bytes than were sent");
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: pre_shared_key listen PORT | pre_shared_key NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "pre_shared_key: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
