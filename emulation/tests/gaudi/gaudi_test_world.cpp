// SPDX-License-Identifier: MIT
#include "gaudi_test_world.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#include "emulation/common/export_descriptor.hpp"
#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/testing_hooks.hpp"

namespace hbmwire::test {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text << '\n';
}

struct KindFacts {
  const char* pci_device;
  std::uint64_t hbm_gib;
};

KindFacts facts_of(std::string_view kind) {
  if (kind == "GAUDI3") return {"0x1060", 128};
  if (kind == "GAUDI2") return {"0x1020", 96};
  return {"0x1000", 32};
}

}  // namespace

std::string HandMadeWorld::pci_address(unsigned index) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("0000:4") + kDigits[index] + ":00.0";
}

HandMadeWorld::HandMadeWorld(const std::vector<std::string>& kinds) {
  std::string pattern = (fs::temp_directory_path() / "hbmwire-gaudi-test.XXXXXX").string();
  if (fs::exists("/dev/shm"))
    pattern = "/dev/shm/hbmwire-gaudi-test.XXXXXX";  // punching holes is fast there
  if (::mkdtemp(pattern.data()) == nullptr) std::abort();
  root_ = pattern;
  const fs::path node = root_ / "nodes" / "a";
  for (unsigned i = 0; i < kinds.size(); ++i) {
    const KindFacts facts = facts_of(kinds[i]);
    const fs::path pci = node / "sys/devices/pci0000:40" / pci_address(i);
    fs::create_directories(pci);
    write_file(pci / "pci_addr", pci_address(i));
    // The number of the slot, which is not the card's index.
    write_file(pci / "module_id", std::to_string(7 - i));
    write_file(pci / "device_type", kinds[i]);
    write_file(pci / "status", "Operational");
    write_file(pci / "device", facts.pci_device);
    const fs::path accel = node / "sys/class/accel" / ("accel" + std::to_string(i));
    fs::create_directories(accel);
    fs::create_directory_symlink(pci, accel / "device");
    fs::create_directories(node / "sys/class/accel" / ("accel_controlD" + std::to_string(i)));
    fs::create_directories(card(i));
    for (const char* name : {"device", "hbm", "state"}) std::ofstream{card(i) / name};
    fs::resize_file(card(i) / "hbm", facts.hbm_gib << 30);
  }
  ::setenv("HBMWIRE_EMULATION_FABRIC", root_.c_str(), 1);
  ::setenv("HBMWIRE_EMULATION_NODE", node.c_str(), 1);
}

HandMadeWorld::~HandMadeWorld() {
  ::unsetenv("HBMWIRE_EMULATION_FABRIC");
  ::unsetenv("HBMWIRE_EMULATION_NODE");
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

fs::path HandMadeWorld::card(unsigned index) const {
  return root_ / "nodes/a" / ("gaudi" + std::to_string(index));
}

void HandMadeWorld::set_status(unsigned index, const std::string& status) const {
  write_file(root_ / "nodes/a/sys/devices/pci0000:40" / pci_address(index) / "status", status);
}

void GaudiTest::SetUp() {
  const auto wanted = kinds();
  const bool emulated = std::getenv("HBMWIRE_EMULATION_NODE") != nullptr;
  if (!wanted.empty()) {
    world_ = std::make_unique<HandMadeWorld>(wanted);
  } else if (!emulated) {
    world_ = std::make_unique<HandMadeWorld>(std::vector<std::string>{"GAUDI2", "GAUDI2"});
  }
  fds_before_ = open_descriptors();
}

void GaudiTest::TearDown() {
  EXPECT_TRUE(soon([&] { return open_descriptors() == fds_before_; }))
      << open_descriptors() << " fds, before " << fds_before_;
  for (const unsigned card : {0U, 1U}) {
    for (const char* kind : {"allocation", "mapping", "export", "host_mapping"}) {
      EXPECT_EQ(hbmwire_gaudi_live_objects(card, kind), 0U) << kind << "s left on card " << card;
    }
  }
  world_.reset();
}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() { return std::exchange(fd_, -1); }

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void OpenCard::close() {
  if (fd_ >= 0) {
    EXPECT_EQ(hlthunk_close(fd_), 0);
  }
  fd_ = -1;
}

// The allocation has pages of the default size and is contiguous and not shared.
MappedMemory::MappedMemory(int fd, std::uint64_t bytes)
    : fd_(fd),
      handle_(hlthunk_device_memory_alloc(fd, bytes, 0, true, false)),
      address_(hlthunk_device_memory_map(fd, handle_, 0)) {
  EXPECT_NE(handle_, 0U);
  EXPECT_NE(address_, 0U);
}

MappedMemory::~MappedMemory() {
  EXPECT_TRUE(soon([&] { return hlthunk_memory_unmap(fd_, address_) == 0; }));
  EXPECT_EQ(hlthunk_device_memory_free(fd_, handle_), 0);
}

int open_first_card() { return hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr); }

int export_range(int fd, std::uint64_t address, std::uint64_t bytes, std::uint64_t offset) {
  return hlthunk_device_mapped_memory_export_dmabuf_fd(fd, address, bytes, offset,
                                                       O_RDWR | O_CLOEXEC);
}

ImportedMemory::ImportedMemory(int dmabuf) {
  const Fd reopened(
      ::open(("/proc/self/fd/" + std::to_string(dmabuf)).c_str(), O_RDWR | O_CLOEXEC));
  emulation::ExportDescriptor descriptor;
  if (::pread(reopened.get(), &descriptor, sizeof(descriptor), 0) != sizeof(descriptor)) return;
  if (descriptor.magic != emulation::ExportDescriptor::kMagic) return;
  bytes_ = descriptor.length_bytes;
  offset_ = descriptor.offset_bytes;
  path_ = descriptor.backing_path;
  const Fd file(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  void* data = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                      file.get(), static_cast<off_t>(offset_));
  if (data != MAP_FAILED) data_ = static_cast<unsigned char*>(data);
}

ImportedMemory::~ImportedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

int run_in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid) return -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Child::Child(const std::function<int()>& body) {
  std::array<int, 2> ready{};
  std::array<int, 2> go{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0 || ::pipe2(go.data(), O_CLOEXEC) != 0) std::abort();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ready[0]);
    ::close(go[1]);
    const auto result = static_cast<unsigned char>(body());
    char byte = 0;
    if (::write(ready[1], &result, 1) != 1 || ::read(go[0], &byte, 1) < 0) ::_exit(99);
    ::_exit(0);
  }
  ::close(ready[1]);
  ::close(go[0]);
  ready_ = ready[0];
  go_ = go[1];
}

Child::~Child() { end(); }

int Child::wait_ready() {
  unsigned char result = 0;
  return ::read(ready_, &result, 1) == 1 ? result : -1;
}

void Child::end() {
  if (pid_ < 0) return;
  ::close(std::exchange(go_, -1));
  reap();
}

void Child::kill() {
  ::kill(pid_, SIGKILL);
  ::close(std::exchange(go_, -1));
  reap();
}

void Child::reap() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  ::close(std::exchange(ready_, -1));
  pid_ = -1;
}

bool soon(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void send_fd(int socket, int fd) {
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  EXPECT_EQ(::sendmsg(socket, &message, 0), 1);
}

int receive_fd(int socket) {
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}

}  // namespace hbmwire::test
