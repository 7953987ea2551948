// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "hbmwire/hbmwire.hpp"
#include "hbmwire/memory_key.hpp"

#include "bench/endpoint/bytes.hpp"

namespace hbmwire::bench {

/// The value, or an exception with the sentence of the error.
template <class T>
T need(hbmwire::Result<T>&& result) {
  if (!result) throw std::runtime_error(describe(result.error()));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// The default options with a pre-shared key, so that no warning gets into the table.
EndpointOptions keyed_options();

/// Throws if the transfer went by shared memory: then the caller's environment allows it, in place
/// of go_by_nic().
void expect_by_nic(const Transfer& transfer);

/// Registers all of the memory, for the peer to read and write.
Region register_bytes(const Context& context, const Bytes& bytes);

/// A memory key that travels between two processes.
struct KeyBytes {
  std::uint32_t size = 0;
  std::array<std::byte, 1024> bytes{};
};

/// The two processes of a row connect, and exchange keys to their memory.
Endpoint connect(const Worker& worker, const Place& place, const EndpointOptions& options);
RemoteRegion exchange(Endpoint& endpoint, const MemoryKey& key, Line& line);

/// An Endpoint of hbmwire, used as any program would: with the default options, whose timeouts
/// guard every transfer, and with a deadline for each wait.
class OurEnd {
 public:
  /// `eager_bytes`: the longest message that is sent at once; none: the default. `nics` as in
  /// ContextOptions.
  explicit OurEnd(const Place& place, std::optional<std::uint32_t> eager_bytes = {},
                  std::vector<std::string> nics = {});

  void write_word(std::uint64_t value) {
    bytes_.word(out_).store(value, std::memory_order_relaxed);
    need(need(endpoint_.put(word_, remote_word_)).wait(kPatience));
  }

  void wait_for_word(std::uint64_t value) const { bytes_.wait_for(in_, value); }

  /// For an end whose process must make progress itself.
  void drive_until_word(std::uint64_t value) {
    spin_until([&] {
      worker_.progress();
      return bytes_.word(in_).load(std::memory_order_acquire) == value;
    });
  }

  /// The next word; both sides count in the same way.
  std::uint64_t next_word() { return ++round_; }

  /// Starts `count` puts, each with a handle of its own; some may still be under way afterwards.
  void run(std::size_t bytes, unsigned count) {
    const Slice from = region_.slice(Bytes::kBulk, bytes);
    const RemoteSlice to = remote_.slice(Bytes::kBulk, bytes);
    for (unsigned i = 0; i < count; ++i) {
      Transfer& transfer = window_[next_++ % kWindow];
      while (transfer && !transfer.done()) worker_.progress();
      auto put = endpoint_.put(from, to);
      if (!put) [[unlikely]]
        throw std::runtime_error(describe(put.error()));
      transfer = std::move(*put);
    }
  }

  /// Starts `count` puts as run() does, but learns of their end from Worker::next_done(), not from
  /// handles.
  void run_told(std::size_t bytes, unsigned count) {
    const Slice from = region_.slice(Bytes::kBulk, bytes);
    const RemoteSlice to = remote_.slice(Bytes::kBulk, bytes);
    for (; count != 0; --count) {
      while (told_ == kWindow) take_told();
      // The value with which next_done() names the put is not used: take_told() only counts.
      need(endpoint_.put(from, to)).notify(count);
      ++told_;
    }
  }

  void finish_told() {
    while (told_ != 0) take_told();
  }

  /// Posts a list of blocks `count` times, one after the other.
  void run_lists(unsigned count) {
    if (!list_) list_.emplace(need(endpoint_.prepare_put(blocks())));
    for (; count != 0; --count) {
      Transfer list = need(list_->post());
      finish(list);
    }
  }

  /// Puts the blocks of Pairs by put_blocks().
  void run_pairs(unsigned count) {
    for (; count != 0; --count) {
      Transfer list =
          need(endpoint_.put_blocks(tables().first, pairs_.here, tables().second, pairs_.there));
      finish(list);
    }
  }

  /// Copies the same blocks by memcpy(3) within this process.
  void copy_pairs(unsigned count) {
    copied_.resize(kBlocks * kBlockStride);
    for (; count != 0; --count) {
      for (std::size_t i = 0; i < kBlocks; ++i) {
        std::memcpy(copied_.data() + pairs_.there[i] * kBlockBytes,
                    bytes_.data() + Bytes::kBulk + pairs_.here[i] * kBlockBytes, kBlockBytes);
      }
    }
  }

  /// Puts the same blocks, each by a put of its own.
  void run_blocks(unsigned count) {
    for (; count != 0; --count) {
      for (const TransferPart& block : blocks()) {
        Transfer& transfer = window_[next_++ % kWindow];
        while (transfer && !transfer.done()) worker_.progress();
        transfer = need(endpoint_.put(block.local, block.remote));
      }
      finish();
    }
  }

  void send_message() { need(need(endpoint_.send(word_, kTag.tag)).wait(kPatience)); }

  /// Receives the peer's next message of one word. Posts the receive only now, as ucx_perftest
  /// does.
  void take_message() {
    Transfer incoming = need(endpoint_.receive(region_.slice(in_, sizeof(std::uint64_t)), kTag));
    finish(incoming);
  }

  /// Sends `count` tagged messages.
  void send_messages(std::size_t bytes, unsigned count) {
    const Slice from = region_.slice(Bytes::kBulk, bytes);
    all_of(count, [&] { return endpoint_.send(from, kBulkTag.tag); });
  }

  void take_messages(std::size_t bytes, unsigned count) {
    const Slice into = region_.slice(Bytes::kBulk, bytes);
    all_of(count, [&] { return endpoint_.receive(into, kBulkTag); });
  }

  void finish() {
    for (Transfer& transfer : window_) finish(transfer);
  }

  /// The path of the put that run() started last; to be called before finish().
  [[nodiscard]] Path last_path() const { return window_[(next_ - 1) % kWindow].path(); }

 private:
  void take_told() {
    if (auto done = worker_.next_done()) {
      need(std::move(done->result));
      --told_;
    }
  }

  static constexpr std::chrono::seconds kPatience{20};
  static constexpr TagMatch kTag{.tag = 1};
  static constexpr TagMatch kBulkTag{.tag = 2};

  /// Polls, as the other ends do. wait() would sleep if the peer is slow once; on a busy machine
  /// both sides would then sleep in every round.
  void finish(Transfer& transfer) {
    if (!transfer) return;
    while (!need(transfer.poll())) continue;
    transfer.reset();
  }

  /// Runs `count` transfers that `start()` begins, with up to kMessages under way.
  template <class Start>
  void all_of(unsigned count, Start start) {
    for (unsigned i = 0; i < count; ++i) {
      Transfer& transfer = window_[i % kMessages];
      finish(transfer);
      transfer = need(start());
    }
    finish();
  }

  const std::vector<TransferPart>& blocks();
  const std::pair<BlockTable, RemoteBlockTable>& tables();

  const Bytes& bytes_;
  std::size_t in_;
  std::size_t out_;
  std::uint64_t round_ = 0;
  Context context_;
  Worker worker_;
  Region region_;
  MemoryKey key_;
  Endpoint endpoint_;
  RemoteRegion remote_;
  Slice word_;
  RemoteSlice remote_word_;
  std::array<Transfer, kWindow> window_;
  std::vector<TransferPart> blocks_;
  std::optional<PreparedTransfer> list_;
  std::optional<std::pair<BlockTable, RemoteBlockTable>> tables_;
  Pairs pairs_;
  std::vector<std::byte> copied_;
  unsigned next_ = 0;
  unsigned told_ = 0;  // under way, or not taken yet
};

}  // namespace hbmwire::bench
