// SPDX-License-Identifier: MIT
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "bench/endpoint/bytes.hpp"

namespace hbmwire::bench {

template <class T>
struct CloseFabric {
  void operator()(T* object) const { fi_close(&object->fid); }
};

template <class T>
using FabricHandle = std::unique_ptr<T, CloseFabric<T>>;

/// An end that does what OurEnd does, with libfabric's verbs provider (verbs;ofi_rxm, which has
/// tagged messages, too).
/// Small operations that are not waited for are injected; up to kWindow are under way; completions
/// are read 16 at a time.
class FabricEnd {
 public:
  explicit FabricEnd(const Place& place);

  /// Writes one word into the peer's page. The write is injected, so it has no completion to wait
  /// for.
  void write_word(std::uint64_t value) {
    bytes_.word(out_).store(value, std::memory_order_relaxed);
    until_taken([&] {
      return fi_inject_write(endpoint_.get(), bytes_.data() + out_, sizeof value, peer_,
                             peer_memory_ + in_, peer_key_);
    });
  }

  void wait_for_word(std::uint64_t value) const { bytes_.wait_for(in_, value); }

  /// The next word; both sides count in the same way.
  std::uint64_t next_word() { return ++round_; }

  /// Starts `count` writes; some may still be under way afterwards.
  void run(std::size_t bytes, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      while (outstanding_ == kWindow) read_completions();
      until_taken([&] {
        return fi_write(endpoint_.get(), bytes_.data() + Bytes::kBulk, bytes, fi_mr_desc(mr_.get()),
                        peer_, peer_memory_ + Bytes::kBulk, peer_key_, nullptr);
      });
      ++outstanding_;
    }
  }

  void finish() {
    while (outstanding_ != 0) read_completions();
  }

  /// Sends a message of one word. It is injected, so it has no completion to wait for.
  void send_message() {
    until_taken([&] {
      return fi_tinject(endpoint_.get(), bytes_.data() + out_, sizeof(std::uint64_t), peer_, kTag);
    });
  }

  /// Receives the peer's next message of one word.
  void take_message() {
    receive(bytes_.data() + in_, sizeof(std::uint64_t), kTag);
    while (received_ == 0) read_completions();
    --received_;
  }

  /// Sends `count` tagged messages.
  void send_messages(std::size_t bytes, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      while (outstanding_ == kMessages) read_completions();
      until_taken([&] {
        return fi_tsend(endpoint_.get(), bytes_.data() + Bytes::kBulk, bytes, fi_mr_desc(mr_.get()),
                        peer_, kBulkTag, nullptr);
      });
      ++outstanding_;
    }
    finish();
  }

  void take_messages(std::size_t bytes, unsigned count) {
    unsigned posted = 0;
    for (unsigned taken = 0; taken < count;) {
      while (posted < count && posted - taken < kMessages) {
        receive(bytes_.data() + Bytes::kBulk, bytes, kBulkTag);
        ++posted;
      }
      read_completions();
      taken += std::exchange(received_, 0);
    }
  }

 private:
  static constexpr std::uint64_t kTag = 1;
  static constexpr std::uint64_t kBulkTag = 2;

  struct FreeInfo {
    void operator()(fi_info* info) const { fi_freeinfo(info); }
  };

  /// Reads at most 16 completions.
  void read_completions();
  void meet(Line& line);
  [[noreturn]] static void fail_with(const char* call, ssize_t error);

  template <class Post>
  void until_taken(Post post) {
    for (ssize_t result = post(); result != 0; result = post()) {
      if (result != -FI_EAGAIN) fail_with("libfabric", result);
      read_completions();
    }
  }

  void receive(std::byte* into, std::size_t bytes, std::uint64_t tag) {
    until_taken([&] {
      return fi_trecv(endpoint_.get(), into, bytes, fi_mr_desc(mr_.get()), peer_, tag, 0,
                      &received_);
    });
  }

  const Bytes& bytes_;
  std::size_t in_;
  std::size_t out_;
  std::uint64_t round_ = 0;
  std::unique_ptr<fi_info, FreeInfo> info_;
  FabricHandle<fid_fabric> fabric_;
  FabricHandle<fid_domain> domain_;
  FabricHandle<fid_av> addresses_;
  FabricHandle<fid_cq> completions_;
  FabricHandle<fid_mr> mr_;
  FabricHandle<fid_ep> endpoint_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::uint64_t peer_memory_ = 0;
  std::uint64_t peer_key_ = 0;
  unsigned outstanding_ = 0;  // writes and sends
  unsigned ended_ = 0;        // how many of them have ended; set while completions are read
  unsigned received_ = 0;     // received, and not yet taken; its address also marks completions of
                              // receives
};

}  // namespace hbmwire::bench
