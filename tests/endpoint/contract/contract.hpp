// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/settings.hpp"

#include "peer.hpp"
#include "tests/endpoint/ends.hpp"
#include "tests/library/emulated_hooks.hpp"
#include "way.hpp"

namespace hbmwire::test {

/// More than the pieces of a staged transfer in flight (8 of 512 KiB), and no multiple of a piece.
inline constexpr std::uint64_t kBytes = (5U << 20U) + 4321;
inline constexpr std::uint64_t kHalf = kBytes / 2;

/// Whether the first `bytes` of both are equal.
inline bool begin_alike(const std::vector<std::byte>& one, const std::vector<std::byte>& other,
                        std::uint64_t bytes) {
  if (std::min(one.size(), other.size()) < bytes) return false;
  return same_bytes(std::span(one).first(bytes), std::span(other).first(bytes));
}

/// This process' end of a way, and its peer. The base of all tests of the common contract
/// (docs/endpoint.md).
class Contract : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
    peer_.emplace(way(), kBytes);
    context_.emplace(
        value(Context::create({.memory = {}, .nics = way().nics, .paths = way().paths})));
    memory_.emplace(allocate_for(*context_, way(), way().here, kBytes));
    region_.emplace(value(context_->register_memory(*memory_, kAll)));
    begin();
  }

  void TearDown() override {
    end();
    region_.reset();
    memory_.reset();
    context_.reset();
    peer_.reset();
    EXPECT_EQ(live_nic_objects(), "");
    set_log_sink({});
  }

  [[nodiscard]] static Way way() { return GetParam(); }

  /// Ends the connection, and makes a new one with a new worker.
  void begin(EndpointOptions options = {}, const WorkerOptions& worker_options = {}) {
    end();
    // A test that sets no peer_timeout gets a short one, so that failures take little time.
    if (options.peer_timeout == EndpointOptions{}.peer_timeout) options.peer_timeout = 1s;
    worker_.emplace(value(Worker::create(*context_, worker_options)));
    connect(options);
  }

  void connect(const EndpointOptions& options = {.peer_timeout = 1s}) {
    endpoint_.emplace(value(Endpoint::connect(*worker_, peer_->address(), within(20s), options)));
    target_ = value(endpoint_->remote("target", within(20s)));
  }

  void end() {
    endpoint_.reset();
    worker_.reset();
  }

  void fill(unsigned seed) const {
    good(memory_->domain().copy_in(memory_->address(), pattern(kBytes, seed), within(20s)));
  }

  /// Reads with this end's own engine, which sees bytes from a NIC only after they were made
  /// visible.
  [[nodiscard]] std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes(kBytes);
    good(memory_->domain().copy_out(memory_->address(), bytes, within(20s)));
    return bytes;
  }

  void fill_peer(unsigned seed) { peer_->ask(Peer::Ask::fill, seed, drive()); }

  [[nodiscard]] std::vector<std::byte> peers_contents() {
    return peer_->ask(Peer::Ask::contents, 0, drive()).bytes;
  }

  [[nodiscard]] std::function<void()> drive() {
    return [this] {
      if (worker_) worker_->progress();
    };
  }

  [[nodiscard]] Slice here(std::uint64_t offset, std::uint64_t bytes) const {
    return region_->slice(offset, bytes);
  }

  [[nodiscard]] RemoteSlice there(std::uint64_t offset, std::uint64_t bytes) const {
    return target_.slice(offset, bytes);
  }

  /// Puts `bytes` bytes from offset `from` of this end's memory to offset `to` of the peer's.
  [[nodiscard]] Transfer put(std::uint64_t from, std::uint64_t to, std::uint64_t bytes,
                             const PutOptions& options = {}) {
    return value(endpoint_->put(here(from, bytes), there(to, bytes), options));
  }

  /// Gets `bytes` bytes from offset `from` of the peer's memory to offset `into` of this end's.
  [[nodiscard]] Transfer get(std::uint64_t into, std::uint64_t from, std::uint64_t bytes) {
    return value(endpoint_->get(here(into, bytes), there(from, bytes)));
  }

  static void finish(Transfer& transfer) { good(transfer.wait(within(20s))); }

  /// Expects that the transfer ends in time. Returns its error, if any.
  static std::optional<Error> how_it_ends(Transfer& transfer) {
    const auto ended = transfer.wait(within(20s));
    EXPECT_TRUE(ended || ended.error().code != Errc::timed_out) << describe(ended.error());
    return ended ? std::nullopt : std::optional(ended.error());
  }

  /// Expects that a new connection can do the same as the one before.
  void expect_works_again() {
    connect();
    fill(91);
    Transfer transfer = put(0, 0, kHalf, {.level = CompletionLevel::visible});
    finish(transfer);
    EXPECT_TRUE(begin_alike(peers_contents(), pattern(kBytes, 91), kHalf));
  }

  std::optional<Peer> peer_;
  std::optional<Context> context_;
  std::optional<Allocation> memory_;
  std::optional<Region> region_;
  std::optional<Worker> worker_;
  std::optional<Endpoint> endpoint_;
  RemoteRegion target_;
};

inline std::string name_of(const ::testing::TestParamInfo<Way>& way) { return way.param.name; }

}  // namespace hbmwire::test
