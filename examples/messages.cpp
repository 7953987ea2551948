// SPDX-License-Identifier: MIT
// A question and its answer, as plain messages.
//
//   node2$ messages listen 7000
//   node1$ messages node2:7000
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

/// Sends a text from `memory`, which may be written again when this returns.
Result<void> say(Endpoint& peer, const Region& memory, std::string_view text) {
  std::memcpy(memory.host_bytes().data(), text.data(), text.size());
  HBMWIRE_TRY_ASSIGN(auto sent, peer.send(memory.slice(0, text.size())));
  return sent.wait(10s);
}

/// Receives the next text, which is at most as long as `memory`.
Result<std::string> hear(Endpoint& peer, const Region& memory) {
  HBMWIRE_TRY_ASSIGN(auto received, peer.receive(memory.slice()));
  HBMWIRE_TRY(received.wait(10s));
  return std::string(reinterpret_cast<const char*>(memory.host_bytes().data()), received.bytes());
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(const Region memory,
                     context.allocate_region(MemoryType::host, 4096, Access::local_write));
  if (arguments.front() != "listen") {
    HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, arguments.front(), 10s));
    HBMWIRE_TRY(say(peer, memory, "how are you?"));
    HBMWIRE_TRY_ASSIGN(const std::string answer, hear(peer, memory));
    HBMWIRE_TRY(peer.close(10s));
    const bool right = answer == "well, how are you?";
    std::printf("%s: %s\n", right ? "verified" : "another answer", answer.c_str());
    return right;
  }
  const auto port = static_cast<std::uint16_t>(std::stoi(arguments.at(1)));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  HBMWIRE_TRY_ASSIGN(const std::string question, hear(peer, memory));
  HBMWIRE_TRY(say(peer, memory, "well, " + question));
  HBMWIRE_TRY(peer.wait_closed(10s));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: messages listen PORT | messages NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "messages: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
