// SPDX-License-Identifier: MIT
#include <cerrno>
#include <ctime>

#include "emulation/nic/queue/completion.hpp"
#include "emulation/nic/state/null_with.hpp"
#include "emulation/nic/state/scattered.hpp"
#include "emulation/nic/verbs/objects.hpp"

/// ibv_create_cq_ex, and the functions that read entries after ibv_start_poll.
namespace hbmwire::emulation::nic {
namespace {

const Cqe& current(ibv_cq_ex* handle) { return cq_of(handle).current; }

int next_poll(ibv_cq_ex* handle) {
  Cq& cq = cq_of(handle);
  if (stays_empty(cq)) return ENOENT;
  if (take_entries(cq, 1, [&](const Cqe& entry, int) { cq.current = entry; }) == 0) return ENOENT;
  place_scattered(*cq.process, cq.current);
  handle->wr_id = cq.current.wr_id;
  handle->status = static_cast<ibv_wc_status>(cq.current.status);
  return 0;
}

int start_poll(ibv_cq_ex* handle, ibv_poll_cq_attr* attributes) {
  const Cq& cq = cq_of(handle);
  if (attributes->comp_mask != 0) return EINVAL;
  if (const int error = data_path_failure(*cq.process, "ibv_start_poll"); error != 0) return error;
  cq.process->progress_parked();
  return next_poll(handle);
}

std::uint64_t read_wallclock(ibv_cq_ex* handle) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::uint64_t age = now_ns() - current(handle).time_ns;
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) - age;
}

void set_readers(ibv_cq_ex& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = [](ibv_cq_ex*) {};
  cq.read_opcode = [](ibv_cq_ex* at) { return static_cast<ibv_wc_opcode>(current(at).opcode); };
  cq.read_vendor_err = [](ibv_cq_ex*) -> std::uint32_t { return 0; };
  cq.read_byte_len = [](ibv_cq_ex* at) { return current(at).byte_len; };
  cq.read_imm_data = [](ibv_cq_ex* at) -> __be32 { return current(at).immediate; };
  cq.read_qp_num = [](ibv_cq_ex* at) { return current(at).qpn; };
  cq.read_src_qp = [](ibv_cq_ex* at) { return current(at).source_qpn; };
  cq.read_wc_flags = [](ibv_cq_ex* at) -> unsigned int { return current(at).flags; };
  cq.read_slid = [](ibv_cq_ex* at) -> std::uint32_t { return current(at).source_lid; };
  cq.read_sl = [](ibv_cq_ex* at) { return current(at).service_level(); };
  cq.read_dlid_path_bits = [](ibv_cq_ex*) -> std::uint8_t { return 0; };
  cq.read_completion_ts = [](ibv_cq_ex* at) { return current(at).time_ns; };
  cq.read_completion_wallclock_ns = read_wallclock;
}

constexpr std::uint64_t kTimes =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint32_t kKnownFlags =
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED |  // accepted, but without effect
    IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

std::uint32_t flags_of(const ibv_cq_init_attr_ex& attributes) {
  return (attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attributes.flags : 0;
}

/// Refuses parent domains, VLANs, flow tags and tag matching, which the NIC does not have.
bool is_supported(const ibv_cq_init_attr_ex& attributes) {
  constexpr std::uint64_t kReadable = std::uint64_t{IBV_WC_STANDARD_FLAGS} | kTimes;
  return (attributes.comp_mask & ~std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS}) == 0 &&
         (flags_of(attributes) & ~kKnownFlags) == 0 && (attributes.wc_flags & ~kReadable) == 0;
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  if (!is_supported(*attributes)) return null_with(EOPNOTSUPP);
  Cq* cq = make_cq(context, attributes->cqe, attributes->channel, attributes->comp_vector);
  if (cq == nullptr) return nullptr;
  CqRecord& record = *cq->record;
  if ((flags_of(*attributes) & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0)
    record.in.care = record.out.care = kReplaces;
  if ((attributes->wc_flags & kTimes) != 0) record.in.care |= kStamps;
  set_readers(cq->handle.extended);
  return &cq->handle.extended;
}

}  // namespace hbmwire::emulation::nic
