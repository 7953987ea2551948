// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "emulation/common/robust_mutex.hpp"
#include "emulation/nic/rdma_cm/tables.hpp"
#include "emulation/nic/state/favoured_lock.hpp"
#include "emulation/nic/state/gid.hpp"
#include "emulation/nic/state/life_sign.hpp"
#include "emulation/nic/state/limits.hpp"
#include "emulation/nic/state/port_record.hpp"
#include "emulation/nic/state/table.hpp"

/// The layout of <fabric>/nic.shm: one SharedState, then the ring heap. The file is sparse and
/// starts as zeros; a zeroed record is a free one.
///
/// Order of locks, outermost first (no thread ever holds two of one kind):
///   a sender's own mutex (process-local) -> Process::windows (process-local) ->
///   Header::allocation -> QpRecord::responder -> QpRecord::posting ->
///   QpRecord::queue -> SrqRecord::mutex -> CqRecord::mutex
/// ContextRecord::mutex comes after Header::allocation; no other is taken with it held.
///   Header::allocation -> CmTables::mutex, which is innermost too
namespace hbmwire::emulation::nic {

/// Allocates blocks whose sizes are powers of two. The list of free blocks lies here and not in the
/// blocks, so that free blocks take no memory.
struct RingHeap {
  static constexpr unsigned kSmallestClass = 12;  // 4 KiB
  static constexpr unsigned kLargestClass = 27;
  // The heap's addresses, which take no memory by themselves. Sanitizers leave far more unmapped.
  static constexpr std::uint64_t kBytes = 32ULL << 30U;
  static constexpr std::uint32_t kPages = kBytes >> kSmallestClass;

  /// The free blocks of one kind. The last one freed is on top.
  struct Free {
    std::uint32_t count;
    std::uint32_t empty;  // blocks from the bottom on that hold zeros and take no memory
  };

  // Each size is a kind; the smallest size has two (Holds).
  static constexpr unsigned kKinds = kLargestClass - kSmallestClass + 2;

  std::uint64_t first_unused;  // offset in the file
  Free free[kKinds];
  // The first page of each free block, ordered by kind. Kinds 0 and 1 may have kPages blocks each,
  // every further kind half as many as the one before: together less than 3 * kPages.
  std::uint32_t pages[3 * kPages];
};

/// The state of the fabric itself. A new file gets its `magic` last.
struct Header {
  static constexpr std::uint64_t kMagic = 0x3143'494e'454d'4248;  // "HBMENIC1"
  static constexpr std::uint32_t kVersion = 1;

  enum Marks : std::uint32_t { undecided, used, unused };

  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t state_bytes;  // sizeof(SharedState): different builds must not share a fabric
  RobustMutex allocation;     // guards claims and releases of records, and the heap
  RobustMutex atomics;        // read-modify-write of memory that is not mapped here
  std::atomic<std::uint64_t> next_id;     // PDs, event channels, MR serials: never reused
  std::uint32_t next_multicast;           // one more than the last index that was ever attached
  std::atomic<std::uint32_t> marks;       // Marks: whether threads have ThreadMarks here
  RobustMutex grace;                      // one wait_for_activity() at a time
  std::atomic<std::uint32_t> phase;       // odd or even: the ProcessRecord::active that counts now
  std::atomic<std::uint32_t> takes_time;  // some NIC's requests take time
  std::atomic<std::uint32_t> conditions;  // counts the links' changes and those of `takes_time`
  std::uint32_t next_context;             // one more than the last index that was ever claimed
  std::atomic<std::uint32_t> processes_end;  // one more than the last claimed slot
  LinkTimer link_timers[kLinkTimers];
  std::atomic<std::uint32_t> next_scattered;  // where the next search for a free record begins
};

/// A process that has opened a NIC. It is alive as long as it holds the OFD lock on byte `slot` of
/// the file.
struct alignas(64) ProcessRecord {
  std::atomic<std::uint32_t> claimed;
  std::atomic<std::uint32_t> generation;
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint32_t> poked;         // a wake-up byte for the helper thread is on its way
  std::atomic<std::uint64_t> wake_channel;  // 0: the process has no helper thread
  LifeSign life;
  // The number of threads without a mark that use keys, by phase (state/activity.hpp). Peers read
  // the members above with every request, but not these.
  alignas(64) std::atomic<std::uint32_t> active[2];
  std::atomic<std::uint32_t> full_sources;  // upper bound of its EventSources with pending events
  std::atomic<std::uint32_t> marks_end;     // one more than its last mark that was ever used
};

/// The destination of an object's asynchronous events.
struct EventSource {
  std::uint64_t channel;  // FIFO <fabric>/processes/<slot>/<channel>; 0: none
  std::uint64_t cookie;   // the object's address in its owner
  std::uint32_t written;  // events put into the FIFO so far; those not drained again were reported
  std::uint32_t pending;  // a bit for each event type that did not fit; its owner tries again on
                          // its next read
  std::uint32_t writing;  // an event that is being written; if its writer was killed, the event may
                          // be in the FIFO without being counted in `written`
};

/// A ring of posted receives, guarded by the lock of the record that it lies in. A QP has two, one
/// for each end of the same ring.
struct ReceiveRing {
  std::uint64_t head, tail;  // first, to be in the cache line of the lock
  std::uint64_t ring;        // offset in the file; 0: none
  std::uint32_t depth, max_sge;

  [[nodiscard]] bool empty() const { return head == tail; }

  [[nodiscard]] bool full() const { return tail - head >= depth; }
};

/// An entry of a receive ring, with room for `max_sge` elements.
struct ReceiveEntry {
  std::uint64_t wr_id;
  std::uint64_t num_sge;
  ibv_sge sge[kMaxSge];
};

constexpr std::uint64_t receive_stride(std::uint32_t max_sge) {
  return 16 + std::uint64_t{max_sge} * sizeof(ibv_sge);
}

/// An SRQ's receive that a QP has taken but not completed. If the requester dies before the
/// completion, or must try again, the QP keeps the receive for the next message or until it is
/// flushed.
struct TakenReceive {
  std::atomic<std::uint32_t> valid;
  std::uint32_t srq_number;
  std::uint64_t position;  // in the SRQ; taken only if the SRQ's head is past it
  ReceiveEntry entry;
};

/// Members that different processes write lie in different cache lines: a peer executes requests on
/// a QP while the owner posts to it.
struct QpRecord {
  FavouredLock responder;                // held to execute a request on this QP, or to prevent that
  std::uint32_t expected_psn;            // `responder` guards it, and the members after `dest_qpn`
  std::atomic<std::uint64_t> readiness;  // what requesters rely on: `state` in the low half, above
                                         // it a count of changes
  std::uint64_t next_receive;  // offset of the next receive, for prefetching; 0: not known
  TakenReceive taken;          // guarded by `responder`; given up with the CQ's lock held

  alignas(64)
      RobustMutex queue;  // held to consume receives, move to ERR or raise events. The next holder
                          // ends a move to ERR that was begun; Completing tells how the head moves
  ReceiveRing receives;   // its tail is a copy of an earlier time (has_receive)

  // Used by the owner's threads that post receives. Others look here when they have no receive.
  alignas(64) FavouredLock posting;  // the tail moves after the entry: harmless when half done
  ReceiveRing posted;                // its head is a copy of an earlier time (make_room)

  // Written seldom.
  alignas(64) std::uint32_t claimed;
  std::uint32_t generation;
  std::atomic<std::uint32_t> qpn;  // 0: free, or almost
  std::atomic<std::uint32_t> owner;
  std::uint32_t type;
  // The peer has parked a request: wake it when something changes here.
  std::atomic<std::uint32_t> sender_waits;
  std::uint64_t pd;
  std::uint32_t send_cq, recv_cq;
  EventSource events;

  std::uint32_t srq;   // index of the SRQ that it takes receives from; 0: it uses its own ring
  std::uint64_t xrcd;  // XRC_RECV: the domain whose SRQs requests may name

  // Read by a requester of its responder; written with `responder` held.
  std::atomic<std::uint32_t> dest_qpn;
  std::uint32_t access;
  std::uint32_t path_mtu;
  std::uint32_t min_rnr_timer;
  std::uint32_t max_dest_rd_atomic;
  std::uint32_t qkey;         // UD
  std::uint32_t established;  // IBV_EVENT_COMM_EST was raised
  std::uint32_t last_wqe;     // IBV_EVENT_QP_LAST_WQE_REACHED was raised
  std::uint32_t port;         // its port's number in the fabric, from the move to INIT on; 0: none
  std::uint32_t lid;          // of that port, which has its GIDs; 0: an Ethernet port
  ibv_qp_attr attributes;     // XRC_RECV: as set through any of its handles

  std::uint32_t scatters;  // small messages stay in their completions until polled
  std::uint32_t nic;       // the NIC, by its first port's number in the fabric

  // Used by the owner. A WRITE needs only one line.
  alignas(64) std::atomic<std::uint64_t> sends_released;  // send slots that polling has given back
  std::atomic<std::uint32_t> polled_qpn;                  // as `qpn`, for pollers
  std::atomic<std::uint32_t> state;                       // written by set_state()
  Traffic traffic;
  std::atomic<std::uint32_t> sends_parked;  // the owner has waiting requests
};

/// Notes that a property that requesters rely on has changed. `responder` is held.
inline void note_change(QpRecord& qp) { qp.readiness.fetch_add(1ULL << 32U); }

/// Changes the state and returns the old one. If the caller is killed half way, only the express
/// lanes to the QP are closed.
inline std::uint32_t set_state(QpRecord& qp, ibv_qp_state to) {
  const auto state = static_cast<std::uint32_t>(to);
  std::uint64_t readiness = qp.readiness.load();
  while (!qp.readiness.compare_exchange_weak(readiness, (readiness >> 32U << 32U) | state)) {
  }
  return qp.state.exchange(state);
}

inline void set_number(QpRecord& qp, std::uint32_t qpn) {
  qp.polled_qpn.store(qpn);
  qp.qpn.store(qpn);  // last: now peers see the QP
}

/// A receive that is being consumed. Consuming it and adding its completion to the CQ must both
/// happen or not at all: the next holder that inherits the CQ's lock finishes the work if `tail`
/// has moved.
struct Completing {
  std::uint32_t qp;  // index; 0: none
  std::uint64_t position;
  std::uint64_t tail;  // the CQ's tail before the completion was added
};

/// Special cases that a CQ needs care for. At most one of the first two is set.
enum CqCare : std::uint32_t {
  kNotArmed = 0,
  kArmedForSolicited = 1,
  kArmedForAny = 2,
  kArmed = kArmedForSolicited | kArmedForAny,
  kOverran = 4,
  kStamps = 8,    // the reader wants times; reading a clock costs as much as a copy
  kReplaces = 16  // the newest entries replace the oldest
};

/// The contents of a completion. It begins as an ibv_wc does.
struct Cqe {
  std::uint64_t wr_id;
  std::uint32_t status, opcode;
  std::uint16_t source_lid;  // of a datagram on InfiniBand; else 0
  std::uint16_t extra;       // index of the ScatteredRecord with its message; or a datagram's
                             // service level, with kIsServiceLevel; or 0. A datagram is never
                             // scattered
  std::uint32_t byte_len;
  std::uint32_t immediate;  // in network order, as the sender gave it
  std::uint32_t qpn, source_qpn, flags;
  std::uint64_t send_index;  // of a send: polling the entry frees every slot up to this one
  std::uint64_t time_ns;     // set if kStamps says so

  static constexpr std::uint16_t kIsServiceLevel = 1U << 15U;

  [[nodiscard]] std::uint32_t scattered() const {
    return (extra & kIsServiceLevel) != 0 ? 0 : extra;
  }

  [[nodiscard]] std::uint8_t service_level() const {
    return static_cast<std::uint8_t>((extra & kIsServiceLevel) != 0 ? extra : 0);
  }
};

static_assert(kMaxScattered <= Cqe::kIsServiceLevel);

/// A place in the ring of a CQ.
struct CqPlace {
  Cqe entry;
  std::atomic<std::uint64_t> sequence;  // the entry's position + 1, stored after the entry
};

static_assert(sizeof(CqPlace) == 64);

/// The ring as one side of a CQ sees it. Pollers also read it without a lock.
struct CqSide {
  std::atomic<std::uint64_t> ring;  // offset in the file
  std::atomic<std::uint32_t> mask;  // cq_ring_mask(depth): the number of places is a power of two
  std::uint32_t care;               // the bits of CqCare that this side handles
};

/// Any process adds entries, with `mutex` held; the owner takes entries, with `reading` held. Both
/// locks are needed to replace the oldest entries by the newest ones, and to move entries or the
/// ring; `reading` is taken first. Each side uses one cache line of its own and the entries, which
/// tell their positions.
struct CqRecord {
  // The side that adds entries.
  alignas(64) FavouredLock mutex;
  std::atomic<std::uint64_t> tail;  // after the newest entry, which is complete before
  std::uint64_t room_until;         // there is room at least for the positions before this one
  CqSide in;

  // The side of the owner, which takes entries.
  alignas(64) FavouredLock reading;  // `head` is stored after the read: harmless when half done
  std::atomic<std::uint64_t> head;
  // As `tail`, for the newest entry that an event was raised for; it is ahead of `tail` while that
  // entry is being added. If the writer is killed then, at worst one event too many was raised.
  std::atomic<std::uint64_t> told_tail;
  CqSide out;

  // An entry for an empty CQ may lie here instead of in the ring. While the CQ is polled as fast as
  // it fills, its entries stay in one cache line.
  alignas(64) CqPlace front;

  // Written seldom, except for `completing`. Guarded by `mutex`.
  alignas(64) Completing completing;
  std::uint64_t solicited_tail;  // as `tail`, for the newest solicited entry
  std::uint64_t serial;          // never reused
  std::atomic<std::uint32_t> used;
  std::atomic<std::uint32_t> owner;
  std::uint32_t depth;
  std::uint32_t nic;  // the NIC, by its first port's number in the fabric

  alignas(64) EventSource completions;
  EventSource async;
};

static_assert(offsetof(CqRecord, reading) == 64 && offsetof(CqRecord, front) == 128);

/// A shared receive queue. Any process may take receives; its owner posts them.
struct SrqRecord {
  RobustMutex mutex;  // guards the ring, the limit and events. Harmless when half done, as a QP's
                      // receive queue is
  std::uint32_t claimed;
  std::uint32_t generation;
  std::atomic<std::uint32_t> number;  // 0: free, or almost; XRC requests name the SRQ by it
  std::atomic<std::uint32_t> owner;
  std::uint32_t nic;   // the NIC, by its first port's number in the fabric
  std::uint32_t type;  // ibv_srq_type
  std::uint32_t cq;    // XRC: the CQ for its receives' completions
  std::uint32_t limit;
  std::uint64_t pd;
  std::uint64_t xrcd;
  EventSource events;
  ReceiveRing receives;
  std::atomic<std::uint64_t> waiting[kMaxProcesses / 64];  // a bit for each process with requests
                                                           // that wait for a receive
};

/// A memory region. By its record an initiator finds the bytes that a key grants access to.
struct alignas(64) MrRecord {
  /// Memory private to its owner, a file, or a memfd with a table of ranges of a file.
  enum Kind : std::uint32_t { private_memory, file, segments };

  std::atomic<std::uint32_t> key;  // 0: not usable; index << 8 | tag, incremented at each reuse
  std::atomic<std::uint32_t> owner;
  std::uint32_t access;
  std::uint32_t kind;
  std::uint64_t serial;  // never reused; caches compare it
  std::uint64_t pd;
  std::uint64_t iova;
  std::uint64_t length;
  std::uint64_t address;      // of the first byte in the owner; for private memory
  std::uint64_t file_offset;  // of the first byte in the backing; for other kinds
  std::int32_t posted_fd;     // as file_fd, for the card's PostedWrites; -1: none
  std::int32_t file_fd;       // the owner's descriptor, which peers open through /proc
  std::uint32_t claimed;
  std::uint32_t tag;
  std::uint32_t nic;  // the NIC, by its first port's number in the fabric
};

/// A memory window. Its owner changes it with Process::windows held. There is one exception: remote
/// invalidation of a type 2 window stores 0 to `mr`.
struct MwRecord {
  std::atomic<std::uint32_t> key;  // 0: free, or almost; the consumer chooses the low 8 bits
  std::atomic<std::uint32_t> mr;   // index of the MR that it is bound to; 0: not bound
  std::atomic<std::uint32_t> qpn;  // type 2: the QP whose requests may use and invalidate it
  std::atomic<std::uint32_t> owner;
  std::uint32_t claimed;
  std::uint32_t tag;
  std::uint32_t type;    // ibv_mw_type
  std::uint32_t access;  // may include IBV_ACCESS_ZERO_BASED
  std::uint64_t serial;  // never reused; requests compare it
  std::uint64_t pd;
  std::uint64_t address;  // its first byte, as an address of the MR
  std::uint64_t length;
};

/// The keys of windows follow those of MRs.
constexpr std::uint32_t mw_key(std::uint32_t index, std::uint32_t tag) {
  return (kMaxMrs + index) << 8U | (tag & 0xffU);
}

static_assert(kMaxMrs + kMaxMws <= 1U << 24U);

/// A QP's membership of a multicast group.
struct MulticastRecord {
  std::atomic<std::uint32_t> qpn;  // free if 0, or if that QP is gone
  std::uint32_t lid;               // of the group, on InfiniBand; else 0
  Gid group;
};

/// A process' handle of an XRC domain. The domain exists as long as it has a handle.
struct XrcdRecord {
  std::atomic<std::uint64_t> id;  // of the domain; 0: free
  std::atomic<std::uint32_t> owner;
  std::uint32_t nic;            // the NIC, by its first port's number in the fabric
  std::uint64_t device, inode;  // of the file that names the domain; 0: no file
};

/// A small message that stays in its completion until polled (state/scattered.hpp). The sender
/// takes the record; it is freed when the completion is polled or the queue pair is destroyed.
struct ScatteredRecord {
  std::uint32_t owner;  // the polling process
  std::uint32_t qpn;
  std::uint32_t bytes;
  std::uint32_t num_sge;
  std::byte message[kScatteredBytes];
  ibv_sge sge[kMaxSge];
};

/// A process' handle of an XRC_RECV QP. The QP exists as long as it has a handle, and every handle
/// gets its events. Guarded by QpRecord::queue of that QP.
struct XrcHandleRecord {
  std::uint32_t claimed;
  std::atomic<std::uint32_t> qpn;  // 0: closed, or not open yet
  std::atomic<std::uint32_t> owner;
  EventSource events;
};

/// A QP number has 16 bits of index and 8 of generation, so that an old number does not reach a new
/// QP. Indices 0 and 1 are not used, because QP 0 and 1 are the management QPs. The last index is
/// not used either, because 0xffffff is the multicast QP.
inline constexpr std::uint32_t kQpIndexBits = 16;
inline constexpr std::uint32_t kFirstQp = 2;
static_assert(kMaxQps == 1U << kQpIndexBits);

/// The records in use, for each table. Guarded by Header::allocation.
struct TableUses {
  RecordUse<kMaxQps, kFirstQp, kMaxQps - 1> qps;
  RecordUse<kMaxCqs> cqs;
  RecordUse<kMaxSrqs> srqs;
  // A key is reused after 256 rounds. That must not happen while a program may still use the old
  // key.
  RecordUse<kMaxMrs, 1, kMaxMrs, 16384> mrs;
  RecordUse<kMaxMws, 1, kMaxMws, 16384> mws;
  RecordUse<kMaxXrcds> xrcds;
  RecordUse<kMaxXrcHandles> xrc_handles;
};

/// The whole file except the ring heap. Tables are sparse: only used records take memory.
struct SharedState {
  Header header;
  TableUses uses;
  ProcessRecord processes[kMaxProcesses];
  ThreadMarks::Table marks[kMaxProcesses];
  QpRecord qps[kMaxQps];
  CqRecord cqs[kMaxCqs];
  SrqRecord srqs[kMaxSrqs];
  MrRecord mrs[kMaxMrs];
  MwRecord mws[kMaxMws];
  MulticastRecord multicasts[kMaxMulticastAttachments];
  PortRecord ports[kMaxFabricPorts];
  ContextRecord contexts[kMaxContexts];
  CmTables cm;
  XrcdRecord xrcds[kMaxXrcds];
  XrcHandleRecord xrc_handles[kMaxXrcHandles];
  std::atomic<std::uint64_t> scattered_taken[kMaxScattered / 64];  // a bit for each record
  ScatteredRecord scattered[kMaxScattered];
  RingHeap heap;
};

static_assert(std::is_trivially_destructible_v<SharedState> &&
              std::is_standard_layout_v<SharedState>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::uint64_t kHeapStart =
    (sizeof(SharedState) + kPageBytes - 1) / kPageBytes * kPageBytes;
inline constexpr std::uint64_t kFileBytes = kHeapStart + RingHeap::kBytes;

constexpr std::uint32_t qp_index(std::uint32_t qpn) { return qpn & (kMaxQps - 1); }

/// The index of a record in its table.
template <typename Record, std::size_t N>
std::uint32_t index_in(const Record (&table)[N], const Record& record) {
  return static_cast<std::uint32_t>(&record - table);
}

constexpr std::uint32_t make_qpn(std::uint32_t index, std::uint32_t generation) {
  return ((generation << kQpIndexBits) | index) & 0xffffffU;
}

/// SRQ numbers have the same structure as QP numbers.
static_assert(kMaxSrqs == kMaxQps);

/// The number of places in a ring is a power of two; at most `depth` of them are used.
constexpr std::uint32_t cq_ring_mask(std::uint32_t depth) { return std::bit_ceil(depth) - 1; }

constexpr std::uint64_t cq_ring_bytes(std::uint32_t depth) {
  return (std::uint64_t{cq_ring_mask(depth)} + 1) * sizeof(CqPlace);
}

/// The offset in the file of the entry at a position.
constexpr std::uint64_t cqe_offset(std::uint64_t ring, std::uint32_t mask, std::uint64_t position) {
  return ring + (position & mask) * sizeof(CqPlace);
}

}  // namespace hbmwire::emulation::nic
