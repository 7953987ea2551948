// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>

#include "hbmwire/context.hpp"

#include "emulated_hooks.hpp"
#include "tests/bytes/bytes.hpp"

// Device memory of another process, opened by its vendor's IPC handle.
namespace hbmwire::test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kBytes = (1U << 20U) + 4321;
constexpr std::uint64_t kOffset = 8192 + 5;
constexpr std::uint64_t kLength = kBytes - kOffset - 77;

Wait soon() { return {Deadline::after(20s), -1}; }

template <class T>
T value(Result<T> result) {
  if (!result) throw std::runtime_error(describe(result.error()));
  return std::move(*result);
}

void good(const Result<void>& result) {
  if (!result) throw std::runtime_error(describe(result.error()));
}

std::vector<std::byte> contents(const Allocation& memory) {
  std::vector<std::byte> bytes(memory.size_bytes());
  good(memory.domain().copy_out(memory.address(), bytes, soon()));
  return bytes;
}

/// What the owner is told, and answers with.
struct Word {
  char command = 0;  // 'n' names the memory, 's' says whether it is as `seed` has it in the range
  unsigned seed = 0;
  IpcHandle handle;
  bool same = false;
};

/// The other process' side: memory with pattern 1 in the range.
void own(MemoryType type, int socket) {
  const Context context = value(Context::create());
  const Allocation memory = value(value(context.open(type))->allocate(kBytes));
  auto expected = pattern(kBytes, 9);
  overlay(expected, kOffset, 0, 1, kLength);
  good(memory.domain().copy_in(memory.address(), expected, soon()));
  Word word;
  while (::recv(socket, &word, sizeof word, 0) == sizeof word) {
    if (word.command == 'n')
      word.handle = value(memory.domain().ipc_handle(memory.address() + kOffset, kLength));
    overlay(expected, kOffset, 0, word.seed, kLength);
    word.same = word.command == 's' && same_bytes(contents(memory), expected);
    if (::send(socket, &word, sizeof word, MSG_NOSIGNAL) != sizeof word) return;
  }
}

/// A process that owns device memory. Made by fork(2) before this one has opened anything.
class Owner {
 public:
  explicit Owner(MemoryType type) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::runtime_error("socketpair");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      try {
        own(type, ends[1]);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "the owner: %s\n", error.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    socket_ = Fd(ends[0]);
  }

  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  ~Owner() { kill(); }

  [[nodiscard]] IpcHandle handle() const { return tell('n', 1).handle; }

  /// Whether `seed`'s pattern is in the range, and around it what was there.
  [[nodiscard]] bool has(unsigned seed) const { return tell('s', seed).same; }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[nodiscard]] Word tell(char command, unsigned seed) const {
    Word word{.command = command, .seed = seed, .handle = {}};
    if (::send(socket_.get(), &word, sizeof word, MSG_NOSIGNAL) != sizeof word ||
        ::recv(socket_.get(), &word, sizeof word, 0) != sizeof word)
      throw std::runtime_error("the owner has gone");
    return word;
  }

  pid_t pid_ = -1;
  Fd socket_;
};

class Ipc : public testing::TestWithParam<MemoryType> {
 protected:
  Ipc() : owner_(GetParam()), context_(value(Context::create())) {
    domain_ = value(context_.open(GetParam()));
  }

  /// As the libraries count it.
  static bool has_open() { return live_objects().find("ipc") != std::string::npos; }

  Error refusal(const IpcHandle& handle) const {
    const auto opened = domain_->open_ipc(handle);
    EXPECT_FALSE(opened);
    EXPECT_FALSE(has_open());
    return opened ? Error{} : opened.error();
  }

  Owner owner_;
  Context context_;
  std::shared_ptr<MemoryDomain> domain_;
};

INSTANTIATE_TEST_SUITE_P(Vendors, Ipc, testing::Values(MemoryType::cuda, MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST_P(Ipc, WhatIsOpenedIsTheOwners) {
  const Allocation opened = value(domain_->open_ipc(owner_.handle()));
  EXPECT_EQ(opened.size_bytes(), kLength);
  EXPECT_TRUE(same_bytes(contents(opened), pattern(kLength, 1)));
  good(domain_->copy_in(opened.address(), pattern(kLength, 2), soon()));
  EXPECT_TRUE(owner_.has(2));
}

TEST_P(Ipc, TheDevicesEngineCopiesBothWays) {
  const Allocation opened = value(domain_->open_ipc(owner_.handle()));
  const Allocation own = value(domain_->allocate(kLength));
  ASSERT_TRUE(domain_->copies_from(opened.domain()));
  good(value(domain_->start_copy_from(opened.domain(), opened.address(), own.address(), kLength))
           .wait(soon()));
  EXPECT_TRUE(same_bytes(contents(own), pattern(kLength, 1)));
  good(domain_->copy_in(own.address(), pattern(kLength, 3), soon()));
  good(value(opened.domain().start_copy_from(*domain_, own.address(), opened.address(), kLength))
           .wait(soon()));
  EXPECT_TRUE(owner_.has(3));
}

TEST_P(Ipc, IsOpenOnceAndGivenBackWithTheLast) {
  const IpcHandle handle = owner_.handle();
  IpcHandle part = handle;
  part.offset_bytes += 4096;
  part.length_bytes = 100;
  auto first = std::make_optional(value(domain_->open_ipc(handle)));
  auto second = std::make_optional(value(domain_->open_ipc(part)));
  EXPECT_EQ(second->address(), first->address() + 4096);
  EXPECT_NE(live_objects().find("1 ipc"), std::string::npos) << live_objects();
  first.reset();
  const auto whole = pattern(kLength, 1);
  EXPECT_TRUE(same_bytes(contents(*second), std::span(whole).subspan(4096, 100)));
  second.reset();
  EXPECT_FALSE(has_open());
  EXPECT_TRUE(owner_.has(1));
}

TEST_P(Ipc, AStrangersHandleIsRefused) {
  const IpcHandle handle = owner_.handle();
  const auto changed = [&](const auto& change) {
    IpcHandle other = handle;
    change(other);
    return refusal(other);
  };
  const auto expect_invalid = [](const Error& error) {
    EXPECT_EQ(error.code, Errc::invalid_argument) << describe(error);
    EXPECT_EQ(error.stage, Stage::open);
  };
  expect_invalid(changed([](IpcHandle& other) { other.type = MemoryType::gaudi; }));
  // CUDA finds out by itself which GPU's it is, and whether this one reaches that.
  if (GetParam() != MemoryType::cuda)
    expect_invalid(changed([](IpcHandle& other) { other.pci_address[0] = 'x'; }));
  expect_invalid(changed([](IpcHandle& other) { other.length_bytes = 0; }));
  expect_invalid(changed([](IpcHandle& other) { other.offset_bytes = other.block_bytes; }));
  expect_invalid(changed([](IpcHandle& other) { other.offset_bytes = ~std::uint64_t{0}; }));
  expect_invalid(changed([](IpcHandle& other) { other.length_bytes = other.block_bytes; }));
  // What only the vendor's library can see.
  expect_invalid(changed([](IpcHandle& other) { other.block_bytes += 1U << 20U; }));
  for (std::size_t i = 0; i < 32; ++i)
    expect_invalid(changed([i](IpcHandle& other) { other.token[i] ^= std::byte{0x55}; }));
  EXPECT_TRUE(owner_.has(1));
}

// CUDA refuses it. ROCr may open it at another address.
TEST_P(Ipc, OnesOwnMemoryIsNeverGivenBackTwice) {
  const Allocation own = value(domain_->allocate(kBytes));
  good(domain_->copy_in(own.address(), pattern(kBytes, 4), soon()));
  const IpcHandle handle = value(domain_->ipc_handle(own.address(), kBytes));
  if (GetParam() == MemoryType::cuda) {
    EXPECT_EQ(refusal(handle).code, Errc::invalid_argument);
  } else if (const auto again = domain_->open_ipc(handle)) {
    EXPECT_NE(again->address(), own.address());
    EXPECT_TRUE(same_bytes(contents(*again), pattern(kBytes, 4)));
  }
  EXPECT_FALSE(has_open());
  EXPECT_TRUE(same_bytes(contents(own), pattern(kBytes, 4)));
  EXPECT_FALSE(domain_->ipc_handle(own.address() + 1, kBytes));
  EXPECT_FALSE(domain_->ipc_handle(own.address(), 0));
}

TEST_P(Ipc, OutlivesItsOwnerWithoutHarm) {
  auto opened = std::make_optional(value(domain_->open_ipc(owner_.handle())));
  owner_.kill();
  std::vector<std::byte> bytes(kLength);
  static_cast<void>(domain_->copy_out(opened->address(), bytes, soon()));
  opened.reset();
  EXPECT_FALSE(has_open());
}

TEST_P(Ipc, AnyFailedCallLeavesNothingOpen) {
  const IpcHandle handle = owner_.handle();
  const std::string before = live_objects();
  const std::string_view library = to_string(GetParam());
  bool opened = false;
  for (long n = 0; !opened; ++n) {
    ASSERT_LT(n, 50);
    fail_nth_call(library, n, ENOMEM);
    {
      const auto memory = domain_->open_ipc(handle);
      const long calls = fail_nth_call(library, -1, 0);
      opened = memory.has_value() && calls <= n;
    }
    EXPECT_EQ(live_objects(), before) << n;
  }
}

TEST(IpcHandles, AreNotOfHostMemoryNorOfACards) {
  const Context context = value(Context::create());
  for (const MemoryType type : {MemoryType::host, MemoryType::gaudi}) {
    const auto domain = value(context.open(type));
    const Allocation memory = value(domain->allocate(4096));
    const auto handle = domain->ipc_handle(memory.address(), 4096);
    ASSERT_FALSE(handle);
    EXPECT_EQ(handle.error().code, Errc::not_supported);
    const auto opened = domain->open_ipc({});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::not_supported);
  }
}

}  // namespace
}  // namespace hbmwire::test
