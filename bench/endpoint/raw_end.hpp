// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <vector>

#include "bench/common/queue.hpp"
#include "bench/endpoint/bytes.hpp"

namespace hbmwire::bench {

/// A program that uses only libibverbs: every request is signaled, up to kWindow are under way,
/// completions are polled 16 at a time.
class RawEnd {
 public:
  explicit RawEnd(const Place& place);

  /// Writes one word into the peer's page, and waits for the NIC's completion.
  void write_word(std::uint64_t value) {
    bytes_.word(out_).store(value, std::memory_order_relaxed);
    queue_.post(word_->request);
    queue_.wait_sends(1);
  }

  void wait_for_word(std::uint64_t value) const { bytes_.wait_for(in_, value); }

  /// The next word; both sides count in the same way.
  std::uint64_t next_word() { return ++round_; }

  /// Starts `count` WRITEs; some may still be under way afterwards.
  void run(std::size_t bytes, unsigned count) {
    bulk_->element.length = static_cast<std::uint32_t>(bytes);
    for (unsigned i = 0; i < count; ++i) {
      while (outstanding_ == kWindow) outstanding_ -= queue_.poll_sends();
      queue_.post(bulk_->request);
      ++outstanding_;
    }
  }

  /// Writes the blocks of a list `count` times, as chains of kWindow requests. The last request of
  /// each chain is signaled, and two chains are under way.
  void run_lists(unsigned count);

  /// Writes the blocks of Pairs in the same chains, which are aimed anew for each list.
  void run_pairs(unsigned count);

  void finish() {
    queue_.wait_sends(outstanding_);
    outstanding_ = 0;
  }

 private:
  /// Prepares the chains at the first call.
  void make_list();
  /// Posts the chain that begins at request `first`, when at most one other chain is under way.
  void post_list(std::size_t first, unsigned& chains);

  const Bytes& bytes_;
  std::size_t in_;
  std::size_t out_;
  std::uint64_t round_ = 0;
  Node node_;
  MrHandle mr_;
  Queue queue_;
  std::optional<Operation> word_;
  std::optional<Operation> bulk_;
  std::vector<ibv_sge> list_elements_;
  std::vector<ibv_send_wr> list_;
  Address peer_;
  Pairs pairs_;
  unsigned outstanding_ = 0;
};

}  // namespace hbmwire::bench
