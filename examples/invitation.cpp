// SPDX-License-Identifier: MIT
// Two ends without a listener. They meet by bytes that something else carries: here two files on a
// shared file system; etcd or MPI would do as well.
//
//   node1$ invitation /shared/1 /shared/2
//   node2$ invitation /shared/2 /shared/1
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

const std::vector<std::byte> kContents(32, std::byte{42});

/// Writes the file completely or not at all, so that the other side never reads a half.
void write(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path + ".part", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  std::filesystem::rename(path + ".part", path);
}

std::vector<char> read_when_there(const std::string& path) {
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(10ms);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<bool> run(const std::string& ours, const std::string& theirs) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  HBMWIRE_TRY_ASSIGN(auto invitation, EndpointInvitation::create(worker));
  write(ours, invitation.bytes());
  const std::vector<char> bytes = read_when_there(theirs);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, invitation.connect(std::as_bytes(std::span(bytes)), 10s));

  HBMWIRE_TRY_ASSIGN(const auto memory,
                     context.allocate_region(MemoryType::host, 64, Access::local_write));
  std::ranges::copy(kContents, memory.host_bytes().subspan(32, 32).begin());
  HBMWIRE_TRY_ASSIGN(auto received, peer.receive(memory.slice(0, 32)));
  HBMWIRE_TRY_ASSIGN(auto sent, peer.send(memory.slice(32, 32)));
  HBMWIRE_TRY(received.wait(10s));
  HBMWIRE_TRY(sent.wait(10s));
  HBMWIRE_TRY(peer.close(10s));
  const bool right = received.bytes() == kContents.size() &&
                     std::ranges::equal(memory.host_bytes().first(32), kContents);
  std::printf("%s\n", right ? "verified" : "other bytes than were sent");
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: invitation OURS THEIRS\n");
    return 2;
  }
  const auto right = run(argv[1], argv[2]);
  if (!right) std::fprintf(stderr, "invitation: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
