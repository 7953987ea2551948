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

/// What lies in <fabric>/nic.shm: one SharedState, then the ring heap. The file is sparse and
/// starts as zeros; a record of zeros is a free one.
///
/// Order of locks, outermost first (no thread ever holds two of one kind):
///   a sender's own mutex (process-local) -> Process::windows (process-local) ->
///   Header::allocation -> QpRecord::responder -> QpRecord::posting ->
///   QpRecord::queue -> SrqRecord::mutex -> CqRecord::mutex
/// ContextRecord::mutex comes after Header::allocation; no other is taken with it held.
///   Header::allocation -> CmTables::mutex, which is innermost too
namespace hbmwire::emulation::nic {

/// Blocks of powers of two. Those that are free are named here and not within themselves, so that
/// they take no memory.
struct RingHeap {
  static constexpr unsigned kSmallestClass = 12;  // 4 KiB
  static constexpr unsigned kLargestClass = 27;
  static constexpr std::uint64_t kBytes =
      32ULL << 30U;  // virtual; far below what sanitizers leave unmapped
  static constexpr std::uint32_t kPages = kBytes >> kSmallestClass;

  /// The free blocks of one kind, the last one freed on top.
  struct Free {
    std::uint32_t count;
    std::uint32_t empty;  // of them, from the bottom on, that hold zeros and take no memory
  };

  static constexpr unsigned kKinds = kLargestClass - kSmallestClass + 2;  // two of the smallest

  std::uint64_t first_unused;  // offset in the file
  Free free[kKinds];
  std::uint32_t pages[3 * kPages];  // the first page of each free block, by kind
};

struct Header {
  static constexpr std::uint64_t kMagic = 0x3143'494e'454d'4248;  // "HBMENIC1"
  static constexpr std::uint32_t kVersion = 1;

  enum Marks : std::uint32_t { undecided, used, unused };

  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t state_bytes;  // sizeof(SharedState): two builds that differ must not share a fabric
  RobustMutex allocation;     // claims and releases of records, the heap
  RobustMutex atomics;        // read-modify-write of memory that is not mapped here
  std::atomic<std::uint64_t> next_id;  // PDs, event channels, MR serials: never reused
  std::uint32_t next_multicast;        // behind the last that was ever attached
  std::atomic<std::uint32_t> marks;    // Marks: whether threads have ThreadMarks here
  RobustMutex grace;                   // one wait_for_activity() at a time
  std::atomic<std::uint32_t> phase;
  std::atomic<std::uint32_t> takes_time;     // some NIC's behaviour does
  std::atomic<std::uint32_t> conditions;     // how often that was set, or a link went up or down
  std::uint32_t next_context;                // behind the last that was ever claimed
  std::atomic<std::uint32_t> processes_end;  // behind the last slot that is claimed
  LinkTimer link_timers[kLinkTimers];
  std::atomic<std::uint32_t> next_scattered;
};

/// A process that opened a NIC. It is alive for as long as it holds the OFD lock on byte `slot` of
/// the file.
struct alignas(64) ProcessRecord {
  std::atomic<std::uint32_t> claimed;
  std::atomic<std::uint32_t> generation;
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint32_t> poked;         // a byte is on its way to the helper thread
  std::atomic<std::uint64_t> wake_channel;  // 0: it has no helper thread
  LifeSign life;
  // Threads without a mark that are at work with keys, by phase (state/activity.hpp). Peers look at
  // what is above with every request, and at this with none.
  alignas(64) std::atomic<std::uint32_t> active[2];
  std::atomic<std::uint32_t> full_sources;  // its EventSources with something pending, at least
  std::atomic<std::uint32_t> marks_end;     // behind the last of its marks that a thread ever had
};

/// Where asynchronous events of one object go.
struct EventSource {
  std::uint64_t channel;  // FIFO <fabric>/processes/<slot>/<channel>, 0: none
  std::uint64_t cookie;   // the object's address in its owner
  std::uint32_t written;  // events put into the FIFO so far; what is not drained again was reported
  std::uint32_t
      pending;  // bit per event type that did not fit; its owner tries again on its next read
  std::uint32_t writing;  // left behind by a process that was killed over an event: it may be in
                          // the FIFO, and is not among the written
};

/// Posted receives. Guarded by the lock of the record that it lies in. A QP has two of them, one
/// for each end of one ring.
struct ReceiveRing {
  std::uint64_t head, tail;  // first: in the cache line of the lock
  std::uint64_t ring;        // offset in the file, 0: none
  std::uint32_t depth, max_sge;

  [[nodiscard]] bool empty() const { return head == tail; }

  [[nodiscard]] bool full() const { return tail - head >= depth; }
};

/// An entry of a receive ring, `max_sge` elements long.
struct ReceiveEntry {
  std::uint64_t wr_id;
  std::uint64_t num_sge;
  ibv_sge sge[kMaxSge];
};

constexpr std::uint64_t receive_stride(std::uint32_t max_sge) {
  return 16 + std::uint64_t{max_sge} * sizeof(ibv_sge);
}

/// The receive of an SRQ that a QP has taken and not completed. It stays the QP's when the
/// requester dies over it, or has to come again: for the next message, or to be flushed.
struct TakenReceive {
  std::atomic<std::uint32_t> valid;
  std::uint32_t srq_number;
  std::uint64_t position;  // in the SRQ, whose head is behind it: else it was not taken
  ReceiveEntry entry;
};

/// What different processes write lies in cache lines of their own: a record's peer executes
/// requests on it while its owner posts.
struct QpRecord {
  FavouredLock responder;      // held by whoever executes a request on this QP, and to stop that
  std::uint32_t expected_psn;  // written with `responder` held, as what follows `dest_qpn`
  std::atomic<std::uint64_t> readiness;  // what requesters rely on: `state`, and above it how often
                                         // something was set
  std::uint64_t next_receive;  // offset of the receive that comes next, to be prefetched; or 0
  TakenReceive taken;          // guarded by `responder`; given up with the CQ's lock held

  alignas(64)
      RobustMutex queue;  // consuming receives, the move to ERR, events. A move to ERR that was
                          // begun is ended by the next; the head moves as Completing says
  ReceiveRing receives;   // its tail is where it was when it was looked for last (has_receive)

  // Of the owner's threads, who post receives. Others look here when they know of none.
  alignas(64) FavouredLock posting;  // the tail moves behind the entry: harmless half done
  ReceiveRing posted;                // its head is where it was when there was no room

  // Seldom written.
  alignas(64) std::uint32_t claimed;
  std::uint32_t generation;
  std::atomic<std::uint32_t> qpn;  // 0: free, or about to be
  std::atomic<std::uint32_t> owner;
  std::uint32_t type;
  std::atomic<std::uint32_t>
      sender_waits;  // the peer parked a request; poke it when something changes here
  std::uint64_t pd;
  std::uint32_t send_cq, recv_cq;
  EventSource events;

  std::uint32_t srq;   // index of the SRQ that it takes its receives from, 0: its own ring
  std::uint64_t xrcd;  // XRC_RECV: the domain whose SRQs requests may name

  // What a requester needs to know of its responder; written with `responder` held.
  std::atomic<std::uint32_t> dest_qpn;
  std::uint32_t access;
  std::uint32_t path_mtu;
  std::uint32_t min_rnr_timer;
  std::uint32_t max_dest_rd_atomic;
  std::uint32_t qkey;         // UD
  std::uint32_t established;  // IBV_EVENT_COMM_EST was raised
  std::uint32_t last_wqe;     // IBV_EVENT_QP_LAST_WQE_REACHED was raised
  std::uint32_t port;         // its port's number in the fabric, from the move to INIT on; 0: none
  std::uint32_t lid;          // of that port, which has its GIDs; 0: it is of Ethernet
  ibv_qp_attr attributes;     // XRC_RECV: as set through any of its handles

  std::uint32_t scatters;  // small messages stay in their completions until they are polled
  std::uint32_t nic;       // the number of its first port in the fabric

  // The owner's, of which a WRITE needs one line.
  alignas(64) std::atomic<std::uint64_t> sends_released;  // send slots given back by polling
  std::atomic<std::uint32_t> polled_qpn;                  // as `qpn`, for who polls
  std::atomic<std::uint32_t> state;                       // set_state()
  Traffic traffic;
  std::atomic<std::uint32_t> sends_parked;  // the owner has requests that wait
};

/// Something of a QP is set that requesters rely on; its `responder` is held.
inline void note_change(QpRecord& qp) { qp.readiness.fetch_add(1ULL << 32U); }

/// The state before. Who is killed in between has closed the express lanes to the QP, and no more.
inline std::uint32_t set_state(QpRecord& qp, ibv_qp_state to) {
  const auto state = static_cast<std::uint32_t>(to);
  std::uint64_t readiness = qp.readiness.load();
  while (!qp.readiness.compare_exchange_weak(readiness, (readiness >> 32U << 32U) | state)) {
  }
  return qp.state.exchange(state);
}

inline void set_number(QpRecord& qp, std::uint32_t qpn) {
  qp.polled_qpn.store(qpn);
  qp.qpn.store(qpn);  // last: from here on peers see it
}

/// A receive is consumed and its completion put into the CQ as one: whoever inherits the CQ's lock
/// ends it when `tail` has moved.
struct Completing {
  std::uint32_t qp;  // index, 0: none
  std::uint64_t position;
  std::uint64_t tail;  // before
};

/// What is to be seen to besides. Of the first two one at most.
enum CqCare : std::uint32_t {
  kNotArmed = 0,
  kArmedForSolicited = 1,
  kArmedForAny = 2,
  kArmed = kArmedForSolicited | kArmedForAny,
  kOverran = 4,
  kStamps = 8,    // its reader asked for times: a clock costs as much as a copy
  kReplaces = 16  // the newest entries take the place of the oldest
};

/// What a completion tells. It begins as an ibv_wc does.
struct Cqe {
  std::uint64_t wr_id;
  std::uint32_t status, opcode;
  std::uint16_t source_lid;  // of a datagram on InfiniBand, else 0
  std::uint16_t beside;      // 0, index of the ScatteredRecord with its message, or a datagram's
                             // service level and kIsServiceLevel: what scatters is no datagram
  std::uint32_t byte_len;
  std::uint32_t immediate;  // network order, as the sender gave it
  std::uint32_t qpn, source_qpn, flags;
  std::uint64_t
      send_index;         // of a send: every slot up to this one is free once the entry is polled
  std::uint64_t time_ns;  // where kStamps says so

  static constexpr std::uint16_t kIsServiceLevel = 1U << 15U;

  [[nodiscard]] std::uint32_t scattered() const {
    return (beside & kIsServiceLevel) != 0 ? 0 : beside;
  }

  [[nodiscard]] std::uint8_t service_level() const {
    return static_cast<std::uint8_t>((beside & kIsServiceLevel) != 0 ? beside : 0);
  }
};

static_assert(kMaxScattered <= Cqe::kIsServiceLevel);

/// Where an entry is.
struct CqPlace {
  Cqe entry;
  std::atomic<std::uint64_t> sequence;  // the entry's position + 1, stored behind it
};

static_assert(sizeof(CqPlace) == 64);

/// Where the ring is, as one of a CQ's two sides has it. Who polls looks here without a lock, too.
struct CqSide {
  std::atomic<std::uint64_t> ring;  // offset in the file
  std::atomic<std::uint32_t> mask;  // cq_ring_mask(depth): it has a power of two of places
  std::uint32_t care;               // bits of CqCare, of those that this side sees to
};

/// Entries are put in with `mutex` held, by any process, and taken out with `reading` held, by the
/// owner; where the newest take the place of the oldest, with both. Whoever moves entries or the
/// ring holds both, `reading` first. Each side writes, and looks at, one line of the cache and the
/// entries themselves, which say of what position they are.
struct CqRecord {
  // Of those who put in.
  alignas(64) FavouredLock mutex;
  std::atomic<std::uint64_t> tail;  // behind the newest entry, which is there before it says so
  std::uint64_t room_until;         // there is room for the positions before, at least
  CqSide in;

  // Of the owner, who takes out.
  alignas(64) FavouredLock reading;  // `head` is stored after the read: harmless half done
  std::atomic<std::uint64_t> head;
  // As `tail`, behind the newest entry that an event was raised for: ahead of it while that entry
  // is on its way. Who is killed over it has raised an event too much at worst.
  std::atomic<std::uint64_t> told_tail;
  CqSide out;

  // What comes into an empty CQ may lie here, and not in the ring: while the CQ is polled as it
  // fills, its entries are one line of the cache.
  alignas(64) CqPlace front;

  // Seldom written, but for `completing`. Guarded by `mutex`.
  alignas(64) Completing completing;
  std::uint64_t solicited_tail;  // as `tail`, behind the newest solicited entry
  std::uint64_t serial;          // never reused
  std::atomic<std::uint32_t> used;
  std::atomic<std::uint32_t> owner;
  std::uint32_t depth;
  std::uint32_t nic;  // the number of its first port in the fabric

  alignas(64) EventSource completions;
  EventSource async;
};

static_assert(offsetof(CqRecord, reading) == 64 && offsetof(CqRecord, front) == 128);

struct SrqRecord {
  RobustMutex mutex;  // the ring, the limit, events. As a QP's receive queue harmless half done
  std::uint32_t claimed;
  std::uint32_t generation;
  std::atomic<std::uint32_t> number;  // 0: free, or about to be; XRC requests name it
  std::atomic<std::uint32_t> owner;
  std::uint32_t nic;   // the number of its first port in the fabric
  std::uint32_t type;  // ibv_srq_type
  std::uint32_t cq;    // XRC: where its receives complete
  std::uint32_t limit;
  std::uint64_t pd;
  std::uint64_t xrcd;
  EventSource events;
  ReceiveRing receives;
  std::atomic<std::uint64_t> waiting[kMaxProcesses / 64];  // a bit for each process with requests
                                                           // that wait for a receive
};

struct alignas(64) MrRecord {
  /// Private to its owner; a file; a memfd with a table of the ranges of a file that it stands for.
  enum Kind : std::uint32_t { private_memory, file, segments };

  std::atomic<std::uint32_t> key;  // 0: not usable; index << 8 | tag, bumped at each reuse
  std::atomic<std::uint32_t> owner;
  std::uint32_t access;
  std::uint32_t kind;
  std::uint64_t serial;  // never reused: what caches compare
  std::uint64_t pd;
  std::uint64_t iova;
  std::uint64_t length;
  std::uint64_t address;      // of the first byte in the owner
  std::uint64_t file_offset;  // else: of the first byte in the backing
  std::int32_t posted_fd;     // as file_fd, of the card's PostedWrites; -1: none
  std::int32_t file_fd;       // else: the owner's descriptor, which peers open through /proc
  std::uint32_t claimed;
  std::uint32_t tag;
  std::uint32_t nic;  // the number of its first port in the fabric
};

/// A memory window. Its owner changes it, with Process::windows held; remote invalidation of a type
/// 2 is the one store of 0 to `mr`.
struct MwRecord {
  std::atomic<std::uint32_t> key;  // 0: free, or about to be; the low 8 bits are the consumer's
  std::atomic<std::uint32_t> mr;   // index of the MR that it is bound to, 0: not bound
  std::atomic<std::uint32_t> qpn;  // type 2: whose requests it serves, and who may invalidate it
  std::atomic<std::uint32_t> owner;
  std::uint32_t claimed;
  std::uint32_t tag;
  std::uint32_t type;    // ibv_mw_type
  std::uint32_t access;  // with IBV_ACCESS_ZERO_BASED
  std::uint64_t serial;  // never reused: what requests compare
  std::uint64_t pd;
  std::uint64_t address;  // where it begins, in the MR's terms
  std::uint64_t length;
};

/// Keys of windows follow those of MRs.
constexpr std::uint32_t mw_key(std::uint32_t index, std::uint32_t tag) {
  return (kMaxMrs + index) << 8U | (tag & 0xffU);
}

static_assert(kMaxMrs + kMaxMws <= 1U << 24U);

/// A QP's membership of a multicast group.
struct MulticastRecord {
  std::atomic<std::uint32_t> qpn;  // 0, or of a QP that is gone: free
  std::uint32_t lid;               // of the group, on InfiniBand; else 0
  Gid group;
};

/// A process' handle of an XRC domain, which lives for as long as it has one.
struct XrcdRecord {
  std::atomic<std::uint64_t> id;  // of the domain, 0: free
  std::atomic<std::uint32_t> owner;
  std::uint32_t nic;            // number of its first port in the fabric: a domain is of one NIC
  std::uint64_t device, inode;  // of the file that names it, 0: none does
};

/// A small message that stays in its completion until that is polled (state/scattered.hpp). Taken
/// by whoever sends it, given back by who polls, or with the queue pair.
struct ScatteredRecord {
  std::uint32_t owner;  // the process that polls
  std::uint32_t qpn;
  std::uint32_t bytes;
  std::uint32_t num_sge;
  std::byte message[kScatteredBytes];
  ibv_sge sge[kMaxSge];
};

/// A process' handle of an XRC_RECV QP, which lives for as long as it has one. Its events go to
/// all. Guarded by QpRecord::queue of that QP.
struct XrcHandleRecord {
  std::uint32_t claimed;
  std::atomic<std::uint32_t> qpn;  // 0: closed, or not yet open
  std::atomic<std::uint32_t> owner;
  EventSource events;
};

/// A QP number is 16 bits of index and 8 of generation, so that a stale one does not reach a new
/// QP. Index 0 and 1 are never used: QP 0 and 1 are the management QPs. The last index neither:
/// 0xffffff is the multicast QP.
inline constexpr std::uint32_t kQpIndexBits = 16;
inline constexpr std::uint32_t kFirstQp = 2;
static_assert(kMaxQps == 1U << kQpIndexBits);

/// The records in use, by table. Guarded by Header::allocation.
struct TableUses {
  RecordUse<kMaxQps, kFirstQp, kMaxQps - 1> qps;
  RecordUse<kMaxCqs> cqs;
  RecordUse<kMaxSrqs> srqs;
  // A key comes again after 256 rounds, and must not while programs may still believe in it.
  RecordUse<kMaxMrs, 1, kMaxMrs, 16384> mrs;
  RecordUse<kMaxMws, 1, kMaxMws, 16384> mws;
  RecordUse<kMaxXrcds> xrcds;
  RecordUse<kMaxXrcHandles> xrc_handles;
};

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
  std::atomic<std::uint64_t> scattered_taken[kMaxScattered / 64];  // a bit for each of them
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

/// Which record of its table that is.
template <typename Record, std::size_t N>
std::uint32_t index_in(const Record (&table)[N], const Record& record) {
  return static_cast<std::uint32_t>(&record - table);
}

constexpr std::uint32_t make_qpn(std::uint32_t index, std::uint32_t generation) {
  return ((generation << kQpIndexBits) | index) & 0xffffffU;
}

/// SRQ numbers are made alike.
static_assert(kMaxSrqs == kMaxQps);

/// A ring has a power of two of places, of which `depth` are in use at most.
constexpr std::uint32_t cq_ring_mask(std::uint32_t depth) { return std::bit_ceil(depth) - 1; }

constexpr std::uint64_t cq_ring_bytes(std::uint32_t depth) {
  return (std::uint64_t{cq_ring_mask(depth)} + 1) * sizeof(CqPlace);
}

/// Where the entry of a position lies in the file.
constexpr std::uint64_t cqe_offset(std::uint64_t ring, std::uint32_t mask, std::uint64_t position) {
  return ring + (position & mask) * sizeof(CqPlace);
}

}  // namespace hbmwire::emulation::nic
