// SPDX-License-Identifier: MIT
#include "gaudi_fixture.hpp"

#include <chrono>
#include <thread>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

namespace hbmwire::test {

OnGaudi::OnGaudi() {
  set_log_sink([this](LogLevel, std::string_view line) {
    const std::scoped_lock lock(mutex_);
    warnings_.emplace_back(line);
  });
}

OnGaudi::~OnGaudi() { set_log_sink({}); }

void OnGaudi::TearDown() {
  forbid_peer_to_peer(false);
  // The kernel releases files a little after the call that closed them.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto is_even = [&] {
    return counted("exports") == counted("releases") &&
           counted("attaches") == counted("detaches") && counted("maps") == counted("unmaps") &&
           RawGaudi().open_error() == 0;
  };
  while (!is_even() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(counted("exports"), counted("releases"));
  EXPECT_EQ(counted("attaches"), counted("detaches"));
  EXPECT_EQ(counted("maps"), counted("unmaps"));
  EXPECT_EQ(RawGaudi().open_error(), 0) << "another process has the card";
  const std::scoped_lock lock(mutex_);
  for (const std::string& warning : warnings_) ADD_FAILURE() << "the library says: " << warning;
}

}  // namespace hbmwire::test
