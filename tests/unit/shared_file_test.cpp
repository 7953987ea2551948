// SPDX-License-Identifier: MIT
#include "base/shared_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "hbmwire/fd.hpp"

#include "transport/staged/peer_pieces.hpp"

namespace hbmwire {
namespace {

constexpr std::uint64_t kBytes = 64 << 10;

std::size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/task/" + std::to_string(::gettid()) +
                                                "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

void expect_refused(const Result<SharedFile>& opened, Errc code) {
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, code) << describe(opened.error());
  EXPECT_EQ(opened.error().stage, Stage::open);
}

TEST(SharedFile, TwoProcessesHaveTheSameBytes) {
  const auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made) << describe(made.error());
  ASSERT_EQ(made->bytes().size(), kBytes);
  const SharedFileName name = made->name();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto opened = SharedFile::open(name, kBytes);
    if (!opened || opened->bytes().data() == made->bytes().data()) ::_exit(1);
    opened->bytes().front() = std::byte{7};
    opened->bytes().back() = std::byte{9};
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(made->bytes().front(), std::byte{7});
  EXPECT_EQ(made->bytes().back(), std::byte{9});
}

TEST(SharedFile, OutlivesWhoMadeIt) {
  auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made);
  const auto opened = SharedFile::open(made->name(), kBytes);
  ASSERT_TRUE(opened) << describe(opened.error());
  made->bytes().front() = std::byte{5};
  const SharedFileName name = made->name();
  { const SharedFile gone = std::move(*made); }
  EXPECT_EQ(opened->bytes().front(), std::byte{5});
  expect_refused(SharedFile::open(name, kBytes), Errc::not_found);
}

TEST(SharedFile, NobodyCanShortenIt) {
  const auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made);
  EXPECT_NE(::ftruncate(static_cast<int>(made->name().descriptor), 4096), 0);
  EXPECT_EQ(errno, EPERM);
}

TEST(SharedFile, AStrangersNameOpensNothing) {
  const auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made);
  const std::size_t files = open_files();
  SharedFileName wrong = made->name();
  wrong.mark[1] ^= 1U;
  expect_refused(SharedFile::open(wrong, kBytes), Errc::permission_denied);
  wrong = made->name();
  wrong.descriptor = 100'000;
  expect_refused(SharedFile::open(wrong, kBytes), Errc::not_found);
  wrong.process = 0;
  expect_refused(SharedFile::open(wrong, kBytes), Errc::not_found);
  for (const std::uint64_t bytes : {std::uint64_t{0}, kBytes - 1, kBytes + 4096, kBytes / 2,
                                    SharedFile::kMostBytes + 4096, ~std::uint64_t{4095}})
    expect_refused(SharedFile::open(made->name(), bytes), Errc::permission_denied);
  EXPECT_EQ(open_files(), files);
}

TEST(SharedFile, AFileOfAnotherKindIsNotOpened) {
  SharedFileName name{
      .process = static_cast<std::uint32_t>(::getpid()), .descriptor = 0, .mark = {}};
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  name.descriptor = static_cast<std::uint32_t>(null.get());
  expect_refused(SharedFile::open(name, kBytes), Errc::permission_denied);
  // Of the name and length, but it could be shortened under who has it mapped.
  const Fd loose(::memfd_create("hbmwire pieces", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), kBytes + 4096), 0);
  name.descriptor = static_cast<std::uint32_t>(loose.get());
  expect_refused(SharedFile::open(name, kBytes), Errc::permission_denied);
}

TEST(SharedFile, ASealedFileOfAnotherNameIsNotOpened) {
  const Fd other(::memfd_create("somebody's", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(other.get(), kBytes + 4096), 0);
  ASSERT_EQ(::fcntl(other.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  // Its mark would be right.
  expect_refused(SharedFile::open({.process = static_cast<std::uint32_t>(::getpid()),
                                   .descriptor = static_cast<std::uint32_t>(other.get()),
                                   .mark = {}},
                                  kBytes),
                 Errc::permission_denied);
}

TEST(SharedFile, RootDoesNotOpenAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root, which may open anybody's";
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(2);
    ::prctl(PR_SET_DUMPABLE, 1);
    const auto made = SharedFile::create(kBytes);
    if (!made || ::write(pipe[1], &made->name(), sizeof made->name()) < 0) ::_exit(1);
    ::pause();
  }
  SharedFileName name;
  EXPECT_EQ(::read(pipe[0], &name, sizeof name), static_cast<ssize_t>(sizeof name));
  expect_refused(SharedFile::open(name, kBytes), Errc::permission_denied);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int end : pipe) ::close(end);
}

TEST(SharedFile, AnotherUsersIsNotOpened) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root, which may open anybody's";
  const auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made);
  const SharedFileName name = made->name();
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(2);
    const auto opened = SharedFile::open(name, kBytes);
    ::_exit(!opened && opened.error().code == Errc::permission_denied ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(PeerPieces, AreFoundByWhatThePeerCallsThem) {
  const auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made);
  constexpr std::uint64_t kAt = 0x7f00'0000'0000;
  const auto pieces = transport::PeerPieces::open(made->name(), kAt, kBytes);
  ASSERT_TRUE(pieces) << describe(pieces.error());
  std::byte* const first = pieces->find(kAt, kBytes);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(pieces->find(kAt + 4097, kBytes - 4097), first + 4097);
  EXPECT_EQ(pieces->find(kAt - 1, 1), nullptr);
  EXPECT_EQ(pieces->find(kAt - 1, kBytes), nullptr);
  EXPECT_EQ(pieces->find(kAt, kBytes + 1), nullptr);
  EXPECT_EQ(pieces->find(kAt + 1, kBytes), nullptr);
  EXPECT_EQ(pieces->find(kAt + kBytes + 1, 1), nullptr);
  EXPECT_EQ(pieces->find(kAt + 8, ~std::uint64_t{7}), nullptr);
}

TEST(SharedFile, WhatIsTooLargeIsNotMade) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{5}, SharedFile::kMostBytes * 2})
    EXPECT_FALSE(SharedFile::create(bytes));
}

}  // namespace
}  // namespace hbmwire
