// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>

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
  auto child = Child::start([](Voice&, int) { ::raise(SIGSEGV); });
  ASSERT_TRUE(child);
  EXPECT_EQ(child->listen(Deadline::after(10s), -1).kind, Heard::Kind::ended);
  EXPECT_NE(child->end().find("signal 11"), std::string::npos);
}

// Its signal came to the parent's Interrupt when it was ended right after its start.
TEST(DoctorChild, ThatIsEndedAtOnceInterruptsNobodyElse) {
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
