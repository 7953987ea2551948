// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulation/common/posted_writes.hpp"
#include "emulation/nic/abi/libibverbs.hpp"
#include "emulation/nic/memory/backing.hpp"
#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/queue/sender.hpp"
#include "emulation/nic/state/planned_faults.hpp"
#include "emulation/nic/state/process.hpp"
#include "emulation/nic/verbs/device_info.hpp"

/// The objects behind libibverbs' handles. The handle is the first member of its object, except in
/// Cq.
namespace hbmwire::emulation::nic {

struct Cq;
struct Qp;
struct Srq;

/// A completion channel. libibverbs closes its descriptor without telling the plugin, so the inode
/// behind the descriptor shows whether the channel is still open.
struct Channel {
  std::uint64_t inode;
  std::uint64_t id;
};

/// The objects of one kind that a device has, in no order. Each object knows its index, so removing
/// one takes constant time.
template <typename Object>
class Members {
 public:
  void add(Object& object) {
    object.place = all_.size();
    all_.push_back(&object);
  }

  void remove(const Object& object) {
    all_.back()->place = object.place;
    all_[object.place] = all_.back();
    all_.pop_back();
  }

  [[nodiscard]] auto begin() const { return all_.begin(); }

  [[nodiscard]] auto end() const { return all_.end(); }

 private:
  std::vector<Object*> all_;
};

/// An open device.
class ContextState {
 public:
  ContextState(Process& owner, DeviceInfo info, std::uint64_t async_channel_id)
      : process(owner), device(std::move(info)), async_channel(async_channel_id) {}

  /// Makes a completion channel. Returns its descriptor, or -1 with errno.
  int create_channel();

  /// The id of the channel behind a descriptor; 0 if it is not a channel of this context.
  std::uint64_t find_channel(int fd);

  /// Forgets closed channels. Returns how many are open.
  std::size_t count_channels();

  void remove_all_channels();

  /// The NIC and the most objects of one kind that it may have.
  [[nodiscard]] NicRoom room(std::uint64_t NicLimits::*kind) const {
    const std::uint64_t most = device.behaviour.limits.*kind;
    return {device.ports.empty() ? 0 : device.ports.front().fabric_port,
            most == NicLimits{}.*kind ? NicRoom::kAsTheTable : most};
  }

  Process& process;
  const DeviceInfo device;
  const std::uint64_t async_channel;
  std::uint32_t index = 0;  // among the open devices of the fabric

  std::mutex mutex;  // guards the lists
  Members<Cq> cqs;
  Members<Qp> qps;
  Members<Srq> srqs;
  std::atomic<unsigned> pds{0};

 private:
  void prune_channels_locked();
  void remove_locked(int fd);
  std::unordered_map<int, Channel> channels_;  // by descriptor
  std::size_t pruned_ = 0;                     // the number of channels after the last prune
};

/// Room for a verbs_context of any known layout. ibv_context has a fixed place; the functions of
/// the loaded libibverbs lie directly in front of it.
struct Context {
  ContextState* state;
  std::array<std::uint64_t, abi::kMostContextWords> front;
  ibv_context handle;
  std::array<std::uint64_t, 16> spare;  // in case an unknown libibverbs has a larger context
};

static_assert(offsetof(Context, handle) == offsetof(Context, front) + sizeof(Context::front));

/// A protection domain. It cannot be deallocated while it has users.
struct Pd {
  ibv_pd handle;
  Process* process;
  ContextState* context;
  std::uint64_t id;
  std::atomic<unsigned> users{0};
};

/// A memory region, and the file mappings that it keeps alive.
struct Mr {
  abi::MemoryRegion handle;
  Process* process;
  Pd* pd;
  std::uint32_t index;
  std::shared_ptr<Backing> backing;
  std::shared_ptr<Reference> reference;  // of a dma-buf
  std::shared_ptr<PostedWrites> posted;  // of the card that has the memory; null: none
};

/// A memory window. Its state is in its MwRecord.
struct Mw {
  ibv_mw handle;
  Process* process;
  Pd* pd;
};

/// The members for polling share a cache line with those of the handle that libibverbs needs.
struct alignas(64) Cq {
  CqRecord* record;
  Process* process;
  ContextState* context;
  std::uint64_t channel;
  std::uint32_t index;
  std::atomic<std::uint32_t> empty_polls{0};
  std::atomic<unsigned> users{0};
  abi::CompletionQueue handle;
  Cqe current;        // the entry that ibv_start_poll has read
  std::size_t place;  // its index in the device's list; other objects have one too
};

static_assert(offsetof(Cq, handle) + offsetof(ibv_cq, context) + sizeof(ibv_context*) <= 64);

/// This process' handle of an XRC domain.
struct Xrcd {
  abi::XrcDomain handle;
  Process* process;
  ContextState* context;
  std::uint32_t index;
  int file;  // keeps the inode of the domain's file from being reused; -1: no file
  std::atomic<unsigned> users{0};
};

/// A shared receive queue. Its receives are in its SrqRecord.
struct Srq {
  abi::SharedReceiveQueue handle;
  Process* process;
  ContextState* context;
  std::uint32_t index;
  Pd* pd;
  Cq* cq;      // for XRC
  Xrcd* xrcd;  // for XRC
  std::atomic<unsigned> users{0};
  std::size_t place;
};

/// Whether a CQ is empty. If it is, yields the CPU now and then. A real NIC works beside the CPUs;
/// this one runs on them. So a program that spins on an empty CQ must let its peer run: with fewer
/// CPUs than pollers each round would otherwise take a time slice.
bool stays_empty(Cq& cq);

/// Takes the oldest entries, `count` at most, and passes each to `use`. Returns their number.
template <typename Use>
int take_entries(Cq& cq, int count, Use use) {
  CqRecord& record = *cq.record;
  const Process& process = *cq.process;
  const FavouredHold reading(record.reading, Place::reading);
  if (!reading.held()) return 0;
  const auto take_all = [&] { return take(process, record, count, use); };
  if ((record.out.care & kReplaces) != 0) [[unlikely]] {
    const CqHold writing(*cq.process, record);
    return writing.held() ? take_all() : 0;
  }
  const int taken = take_all();
  // Waits for an entry that is on its way if an event was raised for it.
  if (taken == count || record.told_tail.load(std::memory_order_acquire) <=
                            record.head.load(std::memory_order_relaxed)) [[likely]]
    return taken;
  const CqHold writing(*cq.process, record);
  if (!writing.held()) return taken;
  return taken + take(process, record, count - taken,
                      [&](const Cqe& entry, int place) { use(entry, taken + place); });
}

/// A request of the ibv_wr_* interface under construction, with the data that it points to.
struct StagedRequest {
  Request request;
  std::vector<ibv_sge> elements;
  std::vector<std::byte> inline_data;
  bool addressed = false;  // wr_set_ud_addr or wr_set_xrc_srqn was called
};

/// A queue pair. It owns itself until it is destroyed. Threads that execute its sender's requests
/// keep it alive meanwhile.
struct Qp {
  abi::QueuePair handle;
  std::optional<Sender> sender;  // part of the object, so that a request finds it without a load
  std::shared_ptr<Qp> self;
  Process* process;
  ContextState* context;
  std::uint32_t index;
  std::size_t place;
  Pd* pd;
  Cq* send_cq;  // null if its type has none
  Cq* recv_cq;
  Srq* srq;
  Xrcd* xrcd;
  std::uint32_t xrc_handle;  // for XRC_RECV
  ibv_qp_cap cap;
  ibv_qp_attr attributes;    // as set, see attributes_of(); guarded by the sender's mutex
  std::mutex staging_mutex;  // held from wr_start to wr_complete
  std::vector<StagedRequest> staged;
  int staging_error = 0;  // the result of wr_complete; 0: no error so far
};

inline QpRecord& record_of(const Qp& qp) { return qp.process->shared().qps[qp.index]; }

/// Makes the sender, once the QP has its record.
void make_sender(const std::shared_ptr<Qp>& qp, Execute execute, const SendLimits& limits);

/// Hands the QP over to libibverbs: it owns itself from now on.
inline Qp* hand_out(std::shared_ptr<Qp> qp) {
  Qp& object = *qp;
  object.self = std::move(qp);
  return &object;
}

/// The attributes that modify_qp has set. Any process that has an XRC_RECV QP open may set and read
/// them.
inline ibv_qp_attr& attributes_of(Qp& qp) {
  return qp.xrc_handle != 0 ? record_of(qp).attributes : qp.attributes;
}

/// The source of this handle's asynchronous events; guarded by QpRecord::queue.
inline EventSource& events_of(const Qp& qp) {
  return qp.xrc_handle != 0 ? qp.process->shared().xrc_handles[qp.xrc_handle].events
                            : record_of(qp).events;
}

inline Context& context_of(ibv_context* context) {
  return *reinterpret_cast<Context*>(reinterpret_cast<std::byte*>(context) -
                                     offsetof(Context, handle));
}

inline ContextState& state_of(ibv_context* context) { return *context_of(context).state; }

template <typename Handle>
Cq& cq_of(Handle* handle) {
  return *reinterpret_cast<Cq*>(reinterpret_cast<std::byte*>(handle) - offsetof(Cq, handle));
}

template <typename Object, typename Handle>

requires(!std::is_same_v<Object, Cq>) Object& object_of(Handle* handle) {
  return *reinterpret_cast<Object*>(handle);
}

/// The errno that a verb fails with before it begins, because the process is a forked child or a
/// fault plan says so. 0: go on.
int planned_failure(Process& process, const char* verb);

/// As planned_failure(), for a verb that creates an object.
int planned_failure(Process& process, const char* verb, ObjectKind kind);

// The provider's operations, grouped by file.
ibv_pd* alloc_pd(ibv_context* context);
int dealloc_pd(ibv_pd* pd);
ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, int access);
ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                      int fd, int access);
int rereg_mr(abi::MemoryRegion* region, int flags, ibv_pd* pd, void* address, std::size_t length,
             int access);
int dereg_mr(abi::MemoryRegion* region);
ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes);
Cq* make_cq(ibv_context* context, std::uint32_t cqe, const ibv_comp_channel* channel,
            std::uint32_t comp_vector);
int resize_cq(ibv_cq* cq, int cqe);
int destroy_cq(ibv_cq* cq);
int poll_cq(ibv_cq* cq, int count, ibv_wc* completions);
int req_notify_cq(ibv_cq* cq, int solicited_only);
void cq_event(ibv_cq* cq);
void async_event(ibv_context* context, ibv_async_event* event);
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);
void set_work_request_functions(ibv_qp_ex& qp);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* initial);
int destroy_qp(ibv_qp* qp);
/// Fills in a QP's handle, which libibverbs leaves empty, and counts the QP.
void publish_qp(Qp& qp, ibv_context* context, const ibv_qp_init_attr& attributes);
/// Waits until the QP's events are acknowledged, and removes the QP from its device's list.
void withdraw_qp(Qp& qp);
/// Removes the QP's completions from its CQs.
void purge_completions(const Qp& qp);
ibv_qp* create_xrc_receiver(ibv_context* context, const ibv_qp_init_attr_ex& attributes);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attributes);
int destroy_xrc_receiver(Qp& qp);
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attributes);
int close_xrcd(ibv_xrcd* xrcd);
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes);
int modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* attributes);
int destroy_srq(ibv_srq* srq);
int get_srq_num(ibv_srq* srq, std::uint32_t* number);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* first, ibv_recv_wr** bad);
int post_send(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad);
int query_device(ibv_context* context, const ibv_query_device_ex_input* input,
                 ibv_device_attr_ex* attributes, std::size_t size);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes);
/// Checks a path that begins at `port_num`, the QP's own port. Returns 0 or the errno that Linux
/// refuses it with.
int check_address(const ibv_ah_attr& address, const DeviceInfo& device, std::uint8_t port_num);

/// The destination of a path that check_address() accepts.
Destination destination_of(const ibv_ah_attr& address, bool infiniband);
ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes);
int destroy_ah(ibv_ah* handle);
int attach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid);
int detach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid);
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* request);
verbs_context* open_context(ibv_device* device, int cmd_fd, void* private_data);
void close_context(ibv_context* context);

}  // namespace hbmwire::emulation::nic
