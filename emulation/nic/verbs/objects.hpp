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

/// The objects behind libibverbs' handles. The handle is the first thing in its object, but for a
/// Cq's.
namespace hbmwire::emulation::nic {

struct Cq;
struct Qp;
struct Srq;

/// A completion channel: libibverbs closes its descriptor without telling the plugin, so whether it
/// is still open is seen by what is behind the descriptor.
struct Channel {
  std::uint64_t inode;
  std::uint64_t id;
};

/// The objects of one kind that a device has, in no order. Each knows its place, so that one of
/// many goes as fast as the only one.
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

/// An opened device.
class ContextState {
 public:
  ContextState(Process& owner, DeviceInfo info, std::uint64_t async_channel_id)
      : process(owner), device(std::move(info)), async_channel(async_channel_id) {}

  /// A new completion channel's descriptor, or -1 with errno.
  int create_channel();

  /// Id of the channel behind a descriptor, 0 when it is none of this context.
  std::uint64_t find_channel(int fd);

  /// Forgets the channels that were closed; how many are open.
  std::size_t count_channels();

  void remove_all_channels();

  /// The objects of one kind.
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
  std::size_t pruned_ = 0;                     // how many there were behind the last prune
};

/// Room for a verbs_context of any known layout. ibv_context has a fixed place; the loaded
/// libibverbs' functions lie directly in front of it.
struct Context {
  ContextState* state;
  std::array<std::uint64_t, abi::kMostContextWords> front;
  ibv_context handle;
  std::array<std::uint64_t, 16> spare;  // for what an unknown libibverbs takes to be its context
};

static_assert(offsetof(Context, handle) == offsetof(Context, front) + sizeof(Context::front));

struct Pd {
  ibv_pd handle;
  Process* process;
  ContextState* context;
  std::uint64_t id;
  std::atomic<unsigned> users{0};
};

struct Mr {
  abi::MemoryRegion handle;
  Process* process;
  Pd* pd;
  std::uint32_t index;
  std::shared_ptr<Backing> backing;
  std::shared_ptr<Reference> reference;  // of a dma-buf
  std::shared_ptr<PostedWrites> posted;  // of the card whose memory it is; null: none
};

struct Mw {
  ibv_mw handle;
  Process* process;
  Pd* pd;
};

/// What polling needs lies in one line of the cache, with what libibverbs needs of the handle.
struct alignas(64) Cq {
  CqRecord* record;
  Process* process;
  ContextState* context;
  std::uint64_t channel;
  std::uint32_t index;
  std::atomic<std::uint32_t> empty_polls{0};
  std::atomic<unsigned> users{0};
  abi::CompletionQueue handle;
  Cqe current;        // of ibv_start_poll
  std::size_t place;  // in its device's list, as of the others
};

static_assert(offsetof(Cq, handle) + offsetof(ibv_cq, context) + sizeof(ibv_context*) <= 64);

struct Xrcd {
  abi::XrcDomain handle;
  Process* process;
  ContextState* context;
  std::uint32_t index;
  int file;  // keeps the inode that names the domain from naming another file; -1: none does
  std::atomic<unsigned> users{0};
};

struct Srq {
  abi::SharedReceiveQueue handle;
  Process* process;
  ContextState* context;
  std::uint32_t index;
  Pd* pd;
  Cq* cq;      // XRC
  Xrcd* xrcd;  // XRC
  std::atomic<unsigned> users{0};
  std::size_t place;
};

/// Whether there is nothing in a CQ. A NIC works beside the CPUs; this one works on them, so that a
/// program which spins on an empty CQ must now and then let the peer run that it waits for: with
/// fewer CPUs than pollers each round would take a time slice.
bool stays_empty(Cq& cq);

/// Takes the oldest entries, at most `count`, and gives each to `use`; how many.
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
  // Who was told of an entry that is on its way waits for it.
  if (taken == count || record.told_tail.load(std::memory_order_acquire) <=
                            record.head.load(std::memory_order_relaxed)) [[likely]]
    return taken;
  const CqHold writing(*cq.process, record);
  if (!writing.held()) return taken;
  return taken + take(process, record, count - taken,
                      [&](const Cqe& entry, int place) { use(entry, taken + place); });
}

/// A request of the ibv_wr_* interface under construction, with what it points to.
struct StagedRequest {
  Request request;
  std::vector<ibv_sge> elements;
  std::vector<std::byte> inline_data;
  bool addressed = false;  // by wr_set_ud_addr or wr_set_xrc_srqn
};

/// Owns itself until it is destroyed. Whoever carries on with what its sender has posted keeps it
/// for as long.
struct Qp {
  abi::QueuePair handle;
  std::optional<Sender> sender;  // within it, so that a request finds it without a look at memory
  std::shared_ptr<Qp> self;
  Process* process;
  ContextState* context;
  std::uint32_t index;
  std::size_t place;
  Pd* pd;
  Cq* send_cq;  // those that its type has not are null
  Cq* recv_cq;
  Srq* srq;
  Xrcd* xrcd;
  std::uint32_t xrc_handle;  // XRC_RECV
  ibv_qp_cap cap;
  ibv_qp_attr attributes;    // as set, see attributes_of; guarded by the sender's mutex
  std::mutex staging_mutex;  // held from wr_start to wr_complete
  std::vector<StagedRequest> staged;
  int staging_error = 0;  // what wr_complete returns; 0: nothing wrong so far
};

inline QpRecord& record_of(const Qp& qp) { return qp.process->shared().qps[qp.index]; }

/// Once it has its record.
void make_sender(const std::shared_ptr<Qp>& qp, Execute execute, const SendLimits& limits);

/// From now on it is libibverbs'.
inline Qp* hand_out(std::shared_ptr<Qp> qp) {
  Qp& object = *qp;
  object.self = std::move(qp);
  return &object;
}

/// What modify_qp set. Any process that has an XRC_RECV QP open may set and ask it.
inline ibv_qp_attr& attributes_of(Qp& qp) {
  return qp.xrc_handle != 0 ? record_of(qp).attributes : qp.attributes;
}

/// Where this handle's asynchronous events come from; guarded by QpRecord::queue.
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

/// errno that a verb fails with before it begins: the process is a forked child, or a fault plan
/// says so. 0: go on.
int planned_failure(Process& process, const char* verb);

/// The same for a verb that makes an object.
int planned_failure(Process& process, const char* verb, ObjectKind kind);

// The provider's operations, one file each kind.
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
/// libibverbs fills in nothing of a QP's handle. Its user is told of it, and it is counted.
void publish_qp(Qp& qp, ibv_context* context, const ibv_qp_init_attr& attributes);
/// Waits until its events are acknowledged, and takes it out of the lists.
void withdraw_qp(Qp& qp);
/// Removes its completions from its CQs.
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
/// The errno that such a path is refused with, or 0. `port_num` is where it begins: the QP's own
/// port.
int check_address(const ibv_ah_attr& address, const DeviceInfo& device, std::uint8_t port_num);

/// Where such an address leads.
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
