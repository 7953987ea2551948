// SPDX-License-Identifier: MIT
#include "emulation/tests/survival/storm_session.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace hbmwire::test {
namespace {

// The layout of the buffer: memory for the peer's writes and reads, its counter, our receives, and
// our send data.
constexpr std::size_t kShared = 0;
constexpr std::uint32_t kWriteBytes = 8192;
constexpr std::size_t kCounter = 16384;
constexpr std::size_t kReceives = 20480;
constexpr std::uint32_t kReceiveBytes = 1024;
constexpr std::size_t kSlots = 8;
constexpr std::size_t kSource = 32768;  // eight messages, then the data of a WRITE
constexpr std::size_t kReadBack = 49152;
constexpr std::size_t kFetched = 61440;
constexpr std::uint32_t kMessageBytes = 512;
constexpr std::size_t kWriteSource = kSource + std::size_t{8} * kMessageBytes;
constexpr std::uint32_t kHeader = 40;  // of a datagram

constexpr std::uint64_t kStormReceiveId = 1000;

enum SendId : std::uint64_t { kMessage = 1, kWrite, kRead, kAtomic };

unsigned char pattern(std::uint64_t seed, std::size_t at) {
  return static_cast<unsigned char>((seed * 0x9e3779b97f4a7c15ULL >> 32U) + at * 31);
}

void fill(unsigned char* to, std::size_t bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes; ++i) to[i] = pattern(seed, i);
}

bool is_filled(const unsigned char* from, std::size_t bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (from[i] != pattern(seed, i)) return false;
  }
  return true;
}

Endpoint::Options options_of(Session::Kind kind, Random& random) {
  Endpoint::Options options;
  if (kind == Session::Kind::unreliable) options.type = IBV_QPT_UC;
  if (kind == Session::Kind::datagrams) options.type = IBV_QPT_UD;
  if (kind == Session::Kind::shared_receives) options.srq_depth = kSlots;
  options.with_channel = below(random, 2) == 0;
  options.device = below(random, 2) == 0 ? "emu0" : "emu1";
  return options;
}

constexpr Timing kTiming{.timeout = 12, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 1};

}  // namespace

std::uint64_t clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void give_up(const char* what, std::uint64_t detail) {
  std::fprintf(stderr, "worker %d: %s (%llu, errno %d)\n", ::getpid(), what,
               static_cast<unsigned long long>(detail), errno);
  ::_exit(3);
}

Session::Session(Kind kind, std::uint64_t id, Random& random, Board& board)
    : kind_(kind),
      id_(id),
      random_(random),
      board_(board),
      endpoint_((Watchdog::enter("making an endpoint"), options_of(kind, random))),
      steps_left_(20 + static_cast<unsigned>(below(random, 400))) {
  for (std::size_t slot = 0; slot < kSlots; ++slot) free_slots_.push_back(slot);
  if (persist("to INIT", [&] { return endpoint_.to_init(); }) != 0) give_up("to INIT");
  post_receives();
}

bool Session::connect(const Address& peer, std::uint64_t peer_id) {
  peer_ = peer;
  if (persist("to RTR", [&] { return endpoint_.to_rtr(peer, kTiming); }) != 0) return false;
  if (persist("to RTS", [&] { return endpoint_.to_rts(kTiming); }) != 0) return false;
  peer_id_ = peer_id;
  board_.sessions.fetch_add(1);
  return true;
}

void Session::post_receives() {
  const bool shared = kind_ == Kind::shared_receives;
  while (!free_slots_.empty()) {
    const std::size_t slot = free_slots_.front();
    const std::size_t offset = kReceives + slot * kReceiveBytes;
    const int error = persist("post_recv", [&] {
      return shared ? endpoint_.post_srq_recv(kStormReceiveId + slot, offset, kReceiveBytes)
                    : endpoint_.post_recv(kStormReceiveId + slot, offset, kReceiveBytes);
    });
    if (error != 0) give_up("post_recv", static_cast<std::uint64_t>(error));
    free_slots_.pop_front();
    ++receives_;
  }
}

void Session::note_posted(int error) {
  if (error != 0) give_up("post_send", static_cast<std::uint64_t>(error));
  posted_ns_.push_back(clock_ns());
}

void Session::post_message() {
  const std::size_t offset = kSource + sent_ % 8 * kMessageBytes;
  const Header header{id_, sent_};
  unsigned char* at = endpoint_.buffer.data() + offset;
  std::memcpy(at, &header, sizeof header);
  fill(at + sizeof header, kMessageBytes - sizeof header, header.session ^ header.sequence);
  ++sent_;
  if (kind_ != Kind::datagrams) {
    note_posted(bounded("send", [&] { return endpoint_.send(kMessage, offset, kMessageBytes); }));
    return;
  }
  ibv_ah_attr path{};
  path.is_global = 1;
  path.port_num = 1;
  path.grh.dgid = peer_.gid;
  path.grh.sgid_index = kGidIndex;
  path.grh.hop_limit = 64;
  const Ah handle(ibv_create_ah(endpoint_.pd.get(), &path));
  if (!handle) give_up("create_ah");
  ibv_send_wr request{};
  request.wr_id = kMessage;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud.ah = handle.get();
  request.wr.ud.remote_qpn = peer_.qpn;
  request.wr.ud.remote_qkey = kQkey;
  note_posted(bounded("send a datagram", [&] {
    return endpoint_.post(request, {endpoint_.element(offset, kMessageBytes)});
  }));
}

void Session::post_write() {
  writing_ = true;
  fill(endpoint_.buffer.data() + kWriteSource, kWriteBytes, id_ + ++writes_);
  note_posted(bounded("write", [&] {
    return endpoint_.rdma(IBV_WR_RDMA_WRITE, kWrite, kWriteSource, kWriteBytes, peer_, kShared);
  }));
}

void Session::post_read() {
  note_posted(bounded("read", [&] {
    return endpoint_.rdma(IBV_WR_RDMA_READ, kRead, kReadBack, kWriteBytes, peer_, kShared);
  }));
}

void Session::post_atomic() {
  adding_ = true;
  ibv_send_wr request{};
  request.wr_id = kAtomic;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic.remote_addr = peer_.buffer + kCounter;
  request.wr.atomic.rkey = peer_.rkey;
  request.wr.atomic.compare_add = 1;
  note_posted(bounded("fetch and add",
                      [&] { return endpoint_.post(request, {endpoint_.element(kFetched, 8)}); }));
}

/// Creates and destroys keys and windows while requests are in flight.
void Session::change_memory() {
  if (extra_ != nullptr) {
    if (persist("dereg_mr", [&] { return ibv_dereg_mr(extra_.get()); }) != 0) give_up("dereg_mr");
    extra_.release();
    return;
  }
  extra_.reset(bounded("reg_mr", [&] {
    return (ibv_reg_mr)(endpoint_.pd.get(), endpoint_.buffer.data(), 4096,
                        kAllAccess | IBV_ACCESS_MW_BIND);
  }));
  Mw window(bounded("alloc_mw", [&] { return ibv_alloc_mw(endpoint_.pd.get(), IBV_MW_TYPE_2); }));
  if (window == nullptr) return;
  if (persist("dealloc_mw", [&] { return ibv_dealloc_mw(window.get()); }) != 0)
    give_up("dealloc_mw");
  window.release();
}

void Session::post_something() {
  const bool reliable = kind_ == Kind::reliable || kind_ == Kind::shared_receives;
  switch (below(random_, 8)) {
    case 0:
      if (!writing_ && kind_ != Kind::datagrams) post_write();
      break;
    case 1:
      if (!adding_ && reliable) post_atomic();
      break;
    case 2:
      change_memory();
      break;
    case 3:
      sleep_on_channel();
      break;
    default:
      post_message();
  }
}

void Session::sleep_on_channel() {
  if (endpoint_.channel == nullptr) return;
  if (bounded("req_notify_cq", [&] { return ibv_req_notify_cq(endpoint_.cq.get(), 0); }) != 0)
    give_up("req_notify_cq");
  poll();  // entries that came before the request for an event cause none
  pollfd ready{endpoint_.channel->fd, POLLIN, 0};
  if (::poll(&ready, 1, 2) != 1) return;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (bounded("get_cq_event",
              [&] { return ibv_get_cq_event(endpoint_.channel.get(), &cq, &context); }) == 0) {
    ibv_ack_cq_events(cq, 1);
  }
}

bool Session::step() {
  poll();
  if (failed_ || steps_left_-- == 0) return false;
  post_receives();
  // Eight messages have different send buffers, so fewer than eight may be in flight.
  if (posted_ns_.size() < 6) post_something();
  if (!posted_ns_.empty() && clock_ns() - posted_ns_.front() > kLongestNs)
    give_up("a request does not end", static_cast<std::uint64_t>(kind_));
  drain_events();
  return !failed_;
}

void Session::poll() {
  ibv_wc completions[8];
  const int count =
      bounded("poll_cq", [&] { return ibv_poll_cq(endpoint_.cq.get(), 8, completions); });
  if (count < 0) give_up("poll_cq");
  for (int i = 0; i < count; ++i) {
    if (completions[i].wr_id >= kStormReceiveId) {
      take_receive(completions[i]);
    } else {
      take_send(completions[i]);
    }
  }
}

void Session::take_send(const ibv_wc& completion) {
  if (posted_ns_.empty()) give_up("a completion of nothing", completion.wr_id);
  posted_ns_.pop_front();
  if (completion.status != IBV_WC_SUCCESS) {
    const bool expected =
        completion.status == IBV_WC_RETRY_EXC_ERR || completion.status == IBV_WC_WR_FLUSH_ERR ||
        completion.status == IBV_WC_RNR_RETRY_EXC_ERR ||
        completion.status == IBV_WC_REM_ACCESS_ERR || completion.status == IBV_WC_REM_OP_ERR;
    if (!expected) give_up("status of a send", completion.status);
    failed_ = true;
    board_.failures_seen.fetch_add(1);
    return;
  }
  if (completion.wr_id == kMessage) return;
  if (completion.wr_id == kWrite) {
    if (kind_ == Kind::unreliable) {
      writing_ = false;
    } else if (!failed_) {
      post_read();
    }
  } else if (completion.wr_id == kRead) {
    if (!is_filled(endpoint_.buffer.data() + kReadBack, kWriteBytes, id_ + writes_))
      give_up("the bytes of a write are not there", writes_);
    writing_ = false;
    board_.verified.fetch_add(1);
  } else {
    std::uint64_t before = 0;
    std::memcpy(&before, endpoint_.buffer.data() + kFetched, sizeof before);
    if (before != added_++) give_up("fetch and add", before);
    adding_ = false;
  }
}

void Session::take_receive(const ibv_wc& completion) {
  const std::size_t slot = completion.wr_id - kStormReceiveId;
  const bool is_free = std::find(free_slots_.begin(), free_slots_.end(), slot) != free_slots_.end();
  if (slot >= kSlots || is_free) give_up("a receive completes twice", slot);
  free_slots_.push_back(slot);
  --receives_;
  if (completion.status != IBV_WC_SUCCESS) {
    if (completion.status != IBV_WC_WR_FLUSH_ERR) give_up("status of a receive", completion.status);
    failed_ = true;
    return;
  }
  check_message(kReceives + slot * kReceiveBytes, completion.byte_len);
}

void Session::check_message(std::size_t offset, std::uint32_t bytes) {
  const bool datagram = kind_ == Kind::datagrams;
  if (datagram) offset += kHeader;
  if (bytes != kMessageBytes + (datagram ? kHeader : 0)) give_up("length of a message", bytes);
  Header header{};
  std::memcpy(&header, endpoint_.buffer.data() + offset, sizeof header);
  if (!is_filled(endpoint_.buffer.data() + offset + sizeof header, kMessageBytes - sizeof header,
                 header.session ^ header.sequence)) {
    give_up("a message is damaged", header.sequence);
  }
  board_.messages.fetch_add(1);
  if (datagram) return;
  // The peer may connect before this side does.
  if (peer_id_ != 0 && header.session != peer_id_) give_up("a message of another session");
  const bool in_order =
      kind_ == Kind::unreliable ? header.sequence >= received_ : header.sequence == received_;
  if (!in_order) give_up("the order of messages", header.sequence);
  received_ = header.sequence + 1;
}

void Session::drain_events() {
  pollfd ready{endpoint_.context->async_fd, POLLIN, 0};
  while (::poll(&ready, 1, 0) == 1) {
    ibv_async_event event{};
    const int error = bounded("get_async_event",
                              [&] { return ibv_get_async_event(endpoint_.context.get(), &event); });
    if (error != 0) give_up("get_async_event");
    if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED || event.event_type == IBV_EVENT_QP_FATAL)
      failed_ = true;
    ibv_ack_async_event(&event);
  }
}

void Session::finish() {
  if (persist("to ERR", [&] { return endpoint_.to(IBV_QPS_ERR); }) != 0) give_up("to ERR");
  const std::uint64_t start = clock_ns();
  // Receives of a shared queue that no queue pair has taken stay in it.
  const bool own_queue = kind_ != Kind::shared_receives;
  while (!posted_ns_.empty() || (own_queue && receives_ != 0)) {
    poll();
    if (clock_ns() - start > kLongestNs)
      give_up("requests are not flushed", posted_ns_.size() * 1000 + receives_);
    ::sched_yield();
  }
  drain_events();
  const auto destroy = [](const char* name, auto& handle, auto call) {
    if (handle == nullptr) return;
    if (persist(name, [&] { return call(handle.get()); }) != 0) give_up(name);
    handle.release();
  };
  destroy("destroy_qp", endpoint_.qp, ibv_destroy_qp);
  destroy("destroy_srq", endpoint_.srq, ibv_destroy_srq);
  destroy("dereg_mr", extra_, ibv_dereg_mr);
  destroy("dereg_mr", endpoint_.mr, ibv_dereg_mr);
  destroy("destroy_cq", endpoint_.cq, ibv_destroy_cq);
  Watchdog::enter("closing");
}

}  // namespace hbmwire::test
