// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "ends.hpp"
#include "internals.hpp"
#include "tests/library/emulated_hooks.hpp"

namespace hbmwire::test {

/// Two ends, of which the first may put into host memory of the second. A test may make their NIC
/// refuse requests. The test calls begin() at least once; each call makes new ends.
class PutEnds : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 64 << 10;

  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  void TearDown() override {
    refuse_requests(0, 0, 0);
    end();
    set_log_sink({});
  }

  void begin(const EndpointOptions& options, const WorkerOptions& worker_options) {
    end();
    ends_.emplace(options, worker_options);
    source_.emplace(ends_->context, MemoryType::host, kBytes);
    target_.emplace(ends_->context, MemoryType::host, kBytes);
    source_->fill(1);
    target_->fill(2);
    key_.emplace(value(MemoryKey::pack(target_->region())));
    remote_ = value(ends_->a->remote(value(RemoteKey::unpack(key_->bytes()))));
  }

  void end() {
    key_.reset();
    source_.reset();
    target_.reset();
    ends_.reset();
    EXPECT_EQ(live_objects(), "");
  }

  /// The state of end `a`.
  [[nodiscard]] internals::EndpointView a() const {
    return internals::look_at_endpoint(ends_->a_worker);
  }

  std::optional<Ends> ends_;
  std::optional<Memory> source_;
  std::optional<Memory> target_;
  std::optional<MemoryKey> key_;
  RemoteRegion remote_;
};

}  // namespace hbmwire::test
