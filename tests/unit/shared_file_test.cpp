// SPDX-License-Identifier: MIT
#include "base/shared_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "hbmwire/context.hpp"
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

/// Maps a whole file.
class Bytes {
 public:
  explicit Bytes(const Fd& file)
      : memory_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
  }

  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  ~Bytes() { ::munmap(memory_, kBytes); }

  [[nodiscard]] std::byte& at(std::size_t place) const {
    return static_cast<std::byte*>(memory_)[place];
  }

 private:
  void* memory_;
};

void expect_refused(const Result<Fd>& opened, Errc code) {
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, code) << describe(opened.error());
  EXPECT_EQ(opened.error().stage, Stage::open);
}

TEST(SharedFile, TwoProcessesHaveTheSameBytes) {
  const auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made) << describe(made.error());
  const Bytes bytes(made->fd);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto opened = SharedFile::open(made->name, kBytes);
    if (!opened) ::_exit(1);
    const Bytes same(*opened);
    same.at(0) = std::byte{7};
    same.at(kBytes - 1) = std::byte{9};
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(bytes.at(0), std::byte{7});
  EXPECT_EQ(bytes.at(kBytes - 1), std::byte{9});
}

TEST(SharedFile, OutlivesItsMaker) {
  auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made);
  const auto opened = SharedFile::open(made->name, kBytes);
  ASSERT_TRUE(opened) << describe(opened.error());
  Bytes(made->fd).at(0) = std::byte{5};
  const SharedFileName name = made->name;
  made->fd.reset();
  EXPECT_EQ(Bytes(*opened).at(0), std::byte{5});
  expect_refused(SharedFile::open(name, kBytes), Errc::not_found);
}

TEST(SharedFile, CannotBeShortened) {
  const auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made);
  EXPECT_NE(::ftruncate(made->fd.get(), 4096), 0);
  EXPECT_EQ(errno, EPERM);
}

TEST(SharedFile, AStrangersNameOpensNothing) {
  const auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made);
  const std::size_t files = open_files();
  for (const std::size_t half : {0U, 1U}) {
    SharedFileName wrong = made->name;
    wrong.mark.at(half) ^= 1U;
    expect_refused(SharedFile::open(wrong, kBytes), Errc::permission_denied);
  }
  SharedFileName wrong = made->name;
  wrong.descriptor = 100'000;
  expect_refused(SharedFile::open(wrong, kBytes), Errc::not_found);
  wrong.process = 0;
  expect_refused(SharedFile::open(wrong, kBytes), Errc::not_found);
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, kBytes - 1, kBytes + 4096, kBytes / 2, ~std::uint64_t{4095}})
    expect_refused(SharedFile::open(made->name, bytes), Errc::permission_denied);
  EXPECT_EQ(open_files(), files);
}

/// The name under which another process would find `file`, for memory with the mark 0.
SharedFileName named(const Fd& file) {
  return {.process = static_cast<std::uint32_t>(::getpid()),
          .descriptor = static_cast<std::uint32_t>(file.get()),
          .mark = {}};
}

constexpr const char* kNameOfMarkZero = "hbmwire 00000000000000000000000000000000";

/// A memfd that cannot be shortened.
Fd sealed(const char* name) {
  Fd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(file.get(), kBytes), 0);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  return file;
}

TEST(SharedFile, AFileOfAnotherKindIsNotOpened) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  expect_refused(SharedFile::open(named(null), kBytes), Errc::permission_denied);
  // It has the right name and length, but could be shortened while others have it mapped.
  const Fd loose(::memfd_create(kNameOfMarkZero, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), kBytes), 0);
  expect_refused(SharedFile::open(named(loose), kBytes), Errc::permission_denied);
  ASSERT_EQ(::fcntl(loose.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(SharedFile::open(named(loose), kBytes));
}

TEST(SharedFile, ASealedFileOfAnotherNameIsNotOpened) {
  const Fd other = sealed("somebody's");
  const Fd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  const std::string path =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(other.get());
  ASSERT_GE(::inotify_add_watch(watch.get(), path.c_str(), IN_OPEN), 0);
  expect_refused(SharedFile::open(named(other), kBytes), Errc::permission_denied);
  std::array<char, 4096> event{};
  EXPECT_EQ(::read(watch.get(), event.data(), event.size()), -1)
      << "the file must not be opened for a moment either";
}

TEST(SharedFile, AReplacementIsNotOpened) {
  const Fd memory = sealed(kNameOfMarkZero);
  const Fd other = sealed("somebody's");
  const Fd place(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0));

  struct stat right {};

  ASSERT_EQ(::fstat(memory.get(), &right), 0);
  std::atomic<bool> done = false;
  std::thread swapping([&] {
    while (!done) {
      ::dup3(other.get(), place.get(), O_CLOEXEC);
      ::dup3(memory.get(), place.get(), O_CLOEXEC);
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    const auto opened = SharedFile::open(named(place), kBytes);
    if (!opened) continue;

    struct stat status {};

    EXPECT_EQ(::fstat(opened->get(), &status), 0);
    EXPECT_EQ(status.st_ino, right.st_ino);
  }
  done = true;
  swapping.join();
}

TEST(SharedFile, RootDoesNotOpenAFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root, which may open anybody's";
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(2);
    ::prctl(PR_SET_DUMPABLE, 1);
    const auto made = SharedFile::create(kBytes);
    if (!made || ::write(pipe[1], &made->name, sizeof made->name) < 0) ::_exit(1);
    ::pause();
  }
  SharedFileName name;
  EXPECT_EQ(::read(pipe[0], &name, sizeof name), static_cast<ssize_t>(sizeof name));
  expect_refused(SharedFile::open(name, kBytes), Errc::permission_denied);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  for (const int end : pipe) ::close(end);
}

TEST(SharedFile, AFileOfAnotherUserIsNotOpened) {
  if (::geteuid() != 0) GTEST_SKIP() << "takes root, which may open anybody's";
  const auto made = SharedFile::create(kBytes);
  ASSERT_TRUE(made);
  const SharedFileName name = made->name;
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

TEST(PeerPieces, AreFoundByThePeersNames) {
  const auto host =
      Context::create()->open(MemoryType::host, {.device = {}, .host = {.shared = true}});
  ASSERT_TRUE(host);
  const auto made = (*host)->allocate(kBytes);
  ASSERT_TRUE(made);
  constexpr std::uint64_t kAt = 0x7f00'0000'0000;
  const auto pieces = transport::PeerPieces::open(
      **host, (*host)->ipc_handle(made->address(), kBytes).value(), kAt);
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

TEST(PeerPieces, TooMuchMemoryIsRefused) {
  const auto host =
      Context::create()->open(MemoryType::host, {.device = {}, .host = {.shared = true}});
  ASSERT_TRUE(host);
  constexpr std::uint64_t kMuch = transport::PeerPieces::kMostBytes + 4096;
  const auto made = (*host)->allocate(kMuch);
  ASSERT_TRUE(made);
  const auto pieces = transport::PeerPieces::open(
      **host, (*host)->ipc_handle(made->address(), kMuch).value(), 4096);
  ASSERT_FALSE(pieces);
  EXPECT_EQ(pieces.error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace hbmwire
