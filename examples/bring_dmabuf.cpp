// SPDX-License-Identifier: MIT
// Serves memory of another exporter's dma-buf: of a camera, a GPU's renderer, a dma-heap. hbmwire
// takes the file descriptor and gives it to the NIC; a peer gets the bytes into its accelerator.
//
//   node2$ bring_dmabuf listen 7000
//   node1$ bring_dmabuf node2:7000
//
// The dma-buf of this example is host memory of /dev/udmabuf (root, or the group kvm).
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <hbmwire/fd.hpp>
#include <hbmwire/hbmwire.hpp>

using namespace hbmwire;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBytes = 4 << 20;

/// The byte that the other side expects at `at`.
std::byte pixel(std::uint64_t at) { return static_cast<std::byte>(at * 31 >> 3U); }

/// A dma-buf as any driver gives one out, with a picture in it.
Result<Fd> make_picture() {
  const auto failed = [](const char* call) {
    return tl::make_unexpected(system_error(Stage::allocate, call, errno));
  };
  Fd pages(::memfd_create("picture", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!pages) return failed("memfd_create");
  if (::ftruncate(pages.get(), kBytes) != 0) return failed("ftruncate");
  auto* const picture = static_cast<std::byte*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, pages.get(), 0));
  if (picture == MAP_FAILED) return failed("mmap");
  for (std::uint64_t i = 0; i < kBytes; ++i) picture[i] = pixel(i);
  ::munmap(picture, kBytes);

  const Fd device(::open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
  if (!device) {
    std::fprintf(stderr, "no /dev/udmabuf: the pages themselves, which an emulated NIC takes\n");
    return pages;
  }
  if (::fcntl(pages.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return failed("fcntl(F_ADD_SEALS)");
  udmabuf_create create{};
  create.memfd = static_cast<__u32>(pages.get());
  create.flags = UDMABUF_FLAGS_CLOEXEC;
  create.size = kBytes;
  Fd dmabuf(::ioctl(device.get(), UDMABUF_CREATE, &create));
  if (!dmabuf) return failed("ioctl(UDMABUF_CREATE)");
  return dmabuf;
}

Result<bool> listen(const Context& context, const Worker& worker, std::uint16_t port) {
  HBMWIRE_TRY_ASSIGN(const Fd picture, make_picture());
  // The library keeps a duplicate of the descriptor, so ours may be closed at any time.
  HBMWIRE_TRY_ASSIGN(
      const auto region,
      context.register_dmabuf({.fd = picture.get(), .length_bytes = kBytes}, Access::remote_read));
  HBMWIRE_TRY_ASSIGN(Listener listener, Listener::create(worker, {.port = port}));
  HBMWIRE_TRY(listener.advertise("picture", region));
  std::printf("%u\n", listener.port());
  std::fflush(stdout);
  HBMWIRE_TRY_ASSIGN(Endpoint peer, listener.accept(30s));
  HBMWIRE_TRY(peer.wait_closed(30s));
  return true;
}

Result<bool> fetch(const Context& context, const Worker& worker, const std::string& node) {
  HBMWIRE_TRY_ASSIGN(const auto mine,
                     context.allocate_region(MemoryType::gaudi, kBytes, Access::local_write));
  HBMWIRE_TRY_ASSIGN(Endpoint peer, Endpoint::connect(worker, node, 10s));
  HBMWIRE_TRY_ASSIGN(const auto picture, peer.remote("picture", 10s));
  HBMWIRE_TRY_ASSIGN(Transfer get, peer.get(mine.slice(), picture.slice()));
  HBMWIRE_TRY(get.wait(10s));
  std::printf("get: %s\n", describe(get.explain()).c_str());

  std::vector<std::byte> contents(kBytes);
  HBMWIRE_TRY(mine.read(0, contents, 10s));
  HBMWIRE_TRY(peer.close(10s));
  for (std::uint64_t i = 0; i < kBytes; ++i) {
    if (contents[i] != pixel(i)) return false;
  }
  std::printf("verified\n");
  return true;
}

Result<bool> run(const std::vector<std::string>& arguments) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Worker worker, Worker::create(context));
  if (arguments.front() != "listen") return fetch(context, worker, arguments.front());
  return listen(context, worker, static_cast<std::uint16_t>(std::stoi(arguments.at(1))));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: bring_dmabuf listen PORT | bring_dmabuf NODE:PORT\n");
    return 2;
  }
  const auto right = run({argv + 1, argv + argc});
  if (!right) std::fprintf(stderr, "bring_dmabuf: %s\n", describe(right.error()).c_str());
  return right && *right ? 0 : 1;
}
