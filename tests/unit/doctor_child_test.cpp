// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "tools/common/interrupt.hpp"
#include "tools/doctor/pairs/child.hpp"

namespace hbmwire::tools::doctor {
namespace {

using namespace std::chrono_literals;

TEST(DoctorChild, HearsAndTells) {
  auto child = Child::start([](Voice& voice, int cancel_fd) {
    const Heard heard = voice.listen(Deadline::after(10s), cancel_fd);
    voice.say({{"echo", heard.value}});
  });
  ASSERT_TRUE(child);
  child->tell({{"word", 7}});
  const Heard heard = child->listen(Deadline::after(10s), -1);
  ASSERT_EQ(heard.kind, Heard::Kind::value);
  EXPECT_EQ(heard.value["echo"]["word"], 7);
  EXPECT_EQ(child->listen(Deadline::after(10s), -1).value, Json({{"done", true}}));
  EXPECT_EQ(child->listen(Deadline::after(10s), -1).kind, Heard::Kind::ended);
}

TEST(DoctorChild, TakesALineOfManyMegabytes) {
  const std::string much(8U << 20U, 'x');
  auto child = Child::start([&](Voice& voice, int) { voice.say({{"much", much}}); });
  ASSERT_TRUE(child);
  const Heard heard = child->listen(Deadline::after(30s), -1);
  ASSERT_EQ(heard.kind, Heard::Kind::value);
  EXPECT_EQ(heard.value["much"], much);
}

TEST(DoctorChild, SaysHowItWasKilled) {
  auto child = Child::start([](Voice&, int) { ::raise(SIGKILL); });
  ASSERT_TRUE(child);
  EXPECT_EQ(child->listen(Deadline::after(10s), -1).kind, Heard::Kind::ended);
  EXPECT_NE(child->end().find("signal 9"), std::string::npos);
}

TEST(DoctorChild, AChildThatDoesNotReadDelaysNoOther) {
  auto child = Child::start([](Voice& voice, int cancel_fd) {
    pollfd entry{.fd = cancel_fd, .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 30'000);
    voice.say({{"unread", true}});
  });
  ASSERT_TRUE(child);
  const Json much{{"much", std::string(60'000, 'x')}};
  int told = 0;
  // tell() must fail when the child's socket is full, not wait.
  while (told < 1000 && child->tell(much)) ++told;
  EXPECT_LT(told, 1000);
}

TEST(DoctorChild, HasNoSocketOfItsParent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  auto child = Child::start([&](Voice& voice, int cancel_fd) {
    struct stat what {};
    voice.say({{"open", ::fstat(ends[1], &what) == 0 && S_ISSOCK(what.st_mode)}});
    voice.listen(Deadline::after(10s), cancel_fd);
  });
  ASSERT_TRUE(child);
  EXPECT_EQ(child->listen(Deadline::after(10s), -1).value, Json({{"open", false}}));
  for (const int fd : ends) ::close(fd);
}

TEST(DoctorChild, SeveralHangingChildrenEndAtTheSameTime) {
  std::vector<Child> children;
  for (int i = 0; i < 5; ++i) {
    auto child = Child::start([](Voice& voice, int) {
      voice.say({{"begun", true}});
      std::this_thread::sleep_for(60s);
    });
    ASSERT_TRUE(child);
    child->listen(Deadline::after(10s), -1);
    children.push_back(std::move(*child));
  }
  const auto before = std::chrono::steady_clock::now();
  for (Child& child : children) child.ask_to_end();
  children.clear();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 4s);
}

// A child that was ended right after its start once passed its signal to the parent's Interrupt.
TEST(DoctorChild, AChildThatIsEndedAtOnceDoesNotInterruptItsParent) {
  const auto interrupt = Interrupt::create();
  ASSERT_TRUE(interrupt);
  for (int i = 0; i < 300; ++i) {
    auto child = Child::start(
        [](Voice& voice, int cancel_fd) { voice.listen(Deadline::after(10s), cancel_fd); });
    ASSERT_TRUE(child);
    child->end();
    pollfd entry{.fd = interrupt->fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&entry, 1, 0), 0) << i;
  }
}

}  // namespace
}  // namespace hbmwire::tools::doctor
