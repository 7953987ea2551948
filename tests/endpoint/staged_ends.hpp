// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <thread>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "ends.hpp"
#include "internals.hpp"
#include "tests/library/emulated_hooks.hpp"

namespace hbmwire::test {

inline constexpr std::uint64_t kPiece = internals::kPieceBytes;
/// More pieces than a transfer has in flight, of which the last one is short.
inline constexpr std::uint64_t kBytes = 10 * kPiece + 4321;

/// Two connected endpoints, each with its own worker and NIC, of which emu1 imports no dma-bufs.
/// Tests must destroy their own objects before TearDown().
template <class Parameter>
class StagedEnds : public ::testing::TestWithParam<Parameter> {
 protected:
  StagedEnds(const char* here_nic, const char* there_nic)
      : here_(value(Context::create({.memory = {}, .nics = {here_nic}}))),
        there_(value(Context::create({.memory = {}, .nics = {there_nic}}))) {}

  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
    begin();
  }

  void TearDown() override {
    refuse_requests(0, 0, 0);
    end();
    here_.reset();
    there_.reset();
    EXPECT_EQ(live_nic_objects(), "");
    set_log_sink({});
  }

  /// Connects both ends, with new workers.
  void begin(const EndpointOptions& options = {.peer_timeout = 400ms}) { begin(options, options); }

  void begin(const EndpointOptions& here, const EndpointOptions& there) {
    near_.emplace(value(Worker::create(*here_)));
    far_.emplace(value(Worker::create(*there_)));
    listener_.emplace(value(Listener::create(*far_, {.address = "127.0.0.1", .endpoint = there})));
    auto [connected, accepted] = connect(here);
    a_.emplace(std::move(connected));
    b_.emplace(std::move(accepted));
  }

  std::pair<Endpoint, Endpoint> connect(const EndpointOptions& options) {
    std::optional<Endpoint> accepted;
    std::thread accepting([&] { accepted.emplace(value(listener_->accept(within(10s)))); });
    Endpoint connected = value(Endpoint::connect(
        *near_, "127.0.0.1:" + std::to_string(listener_->port()), within(10s), options));
    accepting.join();
    return {std::move(connected), std::move(*accepted)};
  }

  void end() {
    b_.reset();
    a_.reset();
    listener_.reset();
    far_.reset();
    near_.reset();
  }

  template <class Over>
  void drive(const Over& over, std::chrono::nanoseconds time = 10s) {
    const Deadline deadline = Deadline::after(time);
    while (!over() && !deadline.passed()) {
      if (near_) near_->progress();
      if (far_) far_->progress();
    }
    EXPECT_TRUE(over()) << "not over in time";
  }

  void finish(Transfer& transfer) {
    drive([&] { return transfer.done(); });
    const auto over = transfer.poll();
    EXPECT_TRUE(over) << describe(over.error());
  }

  /// Expects that the transfer fails, and returns its error.
  Error expect_failure(Transfer& transfer) {
    drive([&] { return transfer.done(); });
    const auto over = transfer.poll();
    EXPECT_FALSE(over);
    return over ? Error{} : over.error();
  }

  static bool is_idle(const std::optional<Worker>& worker) {
    return !worker || internals::look_at(*worker).staged == 0;
  }

  /// Drives both ends until the engines have finished their copies.
  void drive_until_idle() {
    drive([&] { return is_idle(near_) && is_idle(far_); });
  }

  /// Drives both ends until the copies are finished, and then for a while in which nothing may
  /// arrive.
  void settle() {
    drive_until_idle();
    for (int i = 0; i < 500; ++i) {
      near_->progress();
      far_->progress();
    }
  }

  /// Expects that all pieces are free, and that nothing is in flight.
  static void expect_idle(const Worker& worker) {
    const internals::WorkerView view = internals::look_at(worker);
    EXPECT_EQ(view.staged, 0U);
    EXPECT_EQ(view.free_pieces, internals::kPieces);
  }

  std::optional<Context> here_;
  std::optional<Context> there_;
  std::optional<Worker> near_;
  std::optional<Worker> far_;
  std::optional<Listener> listener_;
  std::optional<Endpoint> a_;
  std::optional<Endpoint> b_;
};

/// Device memory of this end that its NIC does not reach, and memory of the peer that its NIC does
/// reach.
class Staged : public StagedEnds<MemoryType> {
 protected:
  Staged() : StagedEnds("emu1", "emu0") {}

  void TearDown() override {
    staged_.reset();
    target_.reset();
    key_.reset();
    StagedEnds::TearDown();
  }

  /// This end's memory. The first call allocates it.
  Memory& staged() {
    if (!staged_) staged_.emplace(*here_, GetParam(), kBytes, Access::local_write);
    return *staged_;
  }

  /// Makes the peer's memory.
  Memory& target(MemoryType type = MemoryType::host, Access access = kAll) {
    return target_.emplace(*there_, type, kBytes, access);
  }

  /// Makes a key of the peer's memory, which this end uses.
  [[nodiscard]] RemoteRegion remote() {
    key_.emplace(value(MemoryKey::pack(target_->region())));
    return value(a_->remote(value(RemoteKey::unpack(key_->bytes()))));
  }

  void expect_idle() { StagedEnds::expect_idle(*near_); }

  std::optional<Memory> staged_;
  std::optional<Memory> target_;
  std::optional<MemoryKey> key_;
};

}  // namespace hbmwire::test
