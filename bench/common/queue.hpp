// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hbmwire::bench {

template <auto kDestroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};

using ContextHandle = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using ChannelHandle = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
using PdHandle = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using CqHandle = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using QpHandle = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;
using MrHandle = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;

/// Memory that a NIC reaches through a dma-buf: a memfd. The emulated NIC takes it for the emulated
/// card's memory, but this program can copy it itself, too. All pages are allocated.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  SharedMemory(SharedMemory&&) = delete;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  [[nodiscard]] int fd() const { return fd_; }

  [[nodiscard]] std::byte* data() const { return data_; }

  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }

 private:
  int fd_;
  std::byte* data_;
  std::size_t size_;
};

/// The first device of this machine, opened, with a protection domain.
class Node {
 public:
  Node();

  [[nodiscard]] MrHandle register_dmabuf(const SharedMemory& memory) const;

  [[nodiscard]] MrHandle register_private(void* address, std::size_t bytes) const;

  [[nodiscard]] ibv_context* context() const { return context_.get(); }

  [[nodiscard]] ibv_pd* pd() const { return pd_.get(); }

 private:
  ContextHandle context_;
  PdHandle pd_;
};

/// Facts about a queue pair, and about the memory that it offers, for the other side.
struct Address {
  std::uint32_t qpn = 0;
  ibv_gid gid{};
  std::uint64_t memory = 0;
  std::uint32_t rkey = 0;
};

/// Throws, with the call's name, if `error`, an errno, is not 0.
void check(int error, const char* call);

/// Takes at most 16 completions. Returns how many; throws if one has failed.
unsigned poll(ibv_cq* cq);

/// For a reliable queue pair that was created: takes it to INIT, gives the address for its peer,
/// and takes it to RTS.
void to_init(ibv_qp& qp);
Address address_of(const ibv_qp& qp, std::uint64_t memory, std::uint32_t rkey);
void connect(ibv_qp& qp, const Address& peer);

/// A reliable connection with CQs of its own. Calls throw if they fail.
class Queue {
 public:
  static constexpr std::uint32_t kDepth = 128;
  static constexpr std::uint32_t kInlineBytes = 64;

  explicit Queue(const Node& node, bool with_channel = false);

  [[nodiscard]] Address address(std::uint64_t memory, std::uint32_t rkey) const {
    return address_of(*qp_, memory, rkey);
  }

  void connect(const Address& peer) { bench::connect(*qp_, peer); }

  void post(ibv_send_wr& request) {
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(qp_.get(), &request, &bad), "ibv_post_send");
  }

  void post_receive(ibv_sge& element);

  /// Takes at most 16 completions of sends; returns how many.
  unsigned poll_sends() { return poll(send_cq_.get()); }

  /// Takes at most 16 completions of receives; returns how many.
  unsigned poll_receives() { return poll(receive_cq_.get()); }

  /// Takes completions of sends until there were `count`.
  void wait_sends(unsigned count) {
    while (count != 0) count -= poll_sends();
  }

  /// Makes the completion of the next receive wake sleep().
  void arm();

  /// Sleeps until the completion channel tells of a received message.
  void sleep();

 private:
  ibv_gid gid_{};
  ChannelHandle channel_;
  CqHandle send_cq_;
  CqHandle receive_cq_;
  QpHandle qp_;
};

/// A request with its one element, for an operation that is repeated.
struct Operation {
  ibv_sge element{};
  ibv_send_wr request{};

  Operation(ibv_wr_opcode opcode, const ibv_sge& from, const Address& to, unsigned flags) {
    element = from;
    request.sg_list = &element;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = flags;
    request.wr.rdma.remote_addr = to.memory;
    request.wr.rdma.rkey = to.rkey;
  }

  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  Operation(Operation&&) = delete;
  Operation& operator=(Operation&&) = delete;
  ~Operation() = default;
};

inline ibv_sge element_of(std::uint64_t address, std::size_t bytes, const MrHandle& mr) {
  return {address, static_cast<std::uint32_t>(bytes), mr->lkey};
}

}  // namespace hbmwire::bench
