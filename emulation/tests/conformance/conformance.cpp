// SPDX-License-Identifier: MIT
#include "emulation/tests/conformance/conformance.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "emulation/tests/conformance/source.hpp"

namespace hbmwire::conformance {
namespace {

ibv_context* open_device(const std::string& name) {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices == nullptr) return nullptr;
  ibv_context* context = nullptr;
  int error = ENODEV;
  for (int index = 0; index < count && context == nullptr; ++index) {
    if (!name.empty() && name != ibv_get_device_name(devices[index])) continue;
    context = ibv_open_device(devices[index]);
    error = errno;
    if (name.empty()) break;
  }
  ibv_free_device_list(devices);
  errno = error;
  return context;
}

const void* element_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp;
    default:
      return nullptr;
  }
}

}  // namespace

void report_destroy(const char* what, int result) {
  if (result != 0)
    ADD_FAILURE() << what << " an object that nothing uses any more: " << errno_name(result);
}

Settings& settings() {
  static Settings the_settings;
  return the_settings;
}

bool wait_until(const std::function<bool()>& done, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    ::sched_yield();
  }
  return true;
}

std::string errno_name(int error) {
  const char* name = ::strerrorname_np(error);
  return std::string(name == nullptr ? "?" : name) + " (" + std::to_string(error) + ", " +
         std::strerror(error) + ")";
}

const char* name_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return "RC";
    case IBV_QPT_UC:
      return "UC";
    case IBV_QPT_UD:
      return "UD";
    case IBV_QPT_XRC_SEND:
      return "XRC_SEND";
    case IBV_QPT_XRC_RECV:
      return "XRC_RECV";
    default:
      return "another type";
  }
}

const char* name_of(ibv_qp_state state) {
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state <= IBV_QPS_ERR ? kNames[state] : "an unknown state";
}

Nic::Nic()
    : context_(need(open_device(settings().device), "opening the device under test")),
      pd_(need(ibv_alloc_pd(context_.get()), "ibv_alloc_pd")) {
  if (const int error = ibv_query_device(context(), &limits_); error != 0)
    throw std::runtime_error("ibv_query_device: " + errno_name(error));
  if (const int error = ibv_query_port(context(), settings().port, &port_); error != 0)
    throw std::runtime_error("ibv_query_port: " + errno_name(error));
  choose_gid();
}

void Nic::choose_gid() {
  int best = -1;
  int best_score = -1;
  for (int index = 0; index < std::min(port_.gid_tbl_len, 256); ++index) {
    ibv_gid_entry entry{};
    if (settings().gid_index >= 0 && settings().gid_index != index) continue;
    if (ibv_query_gid_ex(context(), settings().port, static_cast<std::uint32_t>(index), &entry,
                         0) != 0)
      continue;
    static constexpr std::uint8_t kIpv4Prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const bool ipv4 = std::memcmp(entry.gid.raw, kIpv4Prefix, sizeof kIpv4Prefix) == 0;
    // RoCE v2 counts more than IPv4.
    const int score = (entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : 0) + (ipv4 ? 1 : 0);
    if (score <= best_score) continue;
    best = index;
    best_score = score;
    gid_ = entry.gid;
  }
  if (best < 0) throw std::runtime_error("the port has no GID that can be used");
  gid_index_ = static_cast<std::uint8_t>(best);
}

ibv_ah_attr Nic::path() const {
  ibv_ah_attr path{};
  path.port_num = settings().port;
  path.dlid = port_.lid;
  path.is_global = is_ethernet() || (port_.flags & IBV_QPF_GRH_REQUIRED) != 0 ? 1 : 0;
  if (path.is_global != 0) {
    path.grh.dgid = gid_;
    path.grh.sgid_index = gid_index_;
    path.grh.hop_limit = 64;
  }
  return path;
}

std::string Nic::lacks(ibv_qp_type type) const {
  const std::string sentence = std::string("the device offers no QPs of type ") + name_of(type);
  if (type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV)
    return (limits_.device_cap_flags & IBV_DEVICE_XRC) != 0 ? "" : sentence + " (IBV_DEVICE_XRC)";
  const Cq cq = make_cq(4);
  ibv_qp_init_attr initial{};
  initial.send_cq = cq.get();
  initial.recv_cq = cq.get();
  initial.cap = {1, 1, 1, 1, 0};
  initial.qp_type = type;
  const Qp qp(ibv_create_qp(pd(), &initial));
  if (qp || (errno != EOPNOTSUPP && errno != ENOSYS)) return "";
  return sentence;
}

std::string Nic::lacks_flag(unsigned flag, const char* what) const {
  if ((limits_.device_cap_flags & flag) != 0) return "";
  return std::string("the device does not report ") + what;
}

std::string Nic::lacks_srq() const {
  return limits_.max_srq > 0 ? "" : "the device has no shared receive queues (max_srq is 0)";
}

std::string Nic::lacks_atomics() const {
  return limits_.atomic_cap != IBV_ATOMIC_NONE ? "" : "the device has no atomics (atomic_cap)";
}

std::string Nic::lacks_multicast() const {
  return limits_.max_mcast_grp > 0 ? "" : "the device has no multicast (max_mcast_grp is 0)";
}

std::string Nic::lacks_windows(ibv_mw_type type) const {
  if (type == IBV_MW_TYPE_1) return lacks_flag(IBV_DEVICE_MEM_WINDOW, "IBV_DEVICE_MEM_WINDOW");
  return lacks_flag(IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
                    "IBV_DEVICE_MEM_WINDOW_TYPE_2A or _2B");
}

Cq Nic::make_cq(int depth, ibv_comp_channel* channel, void* cookie) const {
  return Cq(need(ibv_create_cq(context(), depth, cookie, channel, 0), "ibv_create_cq"));
}

Channel Nic::make_channel() const {
  return Channel(need(ibv_create_comp_channel(context()), "ibv_create_comp_channel"));
}

Pd Nic::make_pd() const { return Pd(need(ibv_alloc_pd(context()), "ibv_alloc_pd")); }

Xrcd Nic::make_xrcd() const {
  ibv_xrcd_init_attr initial{};
  initial.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  initial.fd = -1;
  initial.oflags = O_CREAT;
  return Xrcd(need(ibv_open_xrcd(context(), &initial), "ibv_open_xrcd"));
}

Mr Nic::make_mr(ibv_pd* pd, void* address, std::size_t length, int access) const {
  // Avoids verbs.h's macro, which converts the sign of the flags.
  return Mr(need((ibv_reg_mr)(pd, address, length, access), "ibv_reg_mr"));
}

bool Nic::has_event(std::chrono::milliseconds patience) const {
  pollfd ready{context()->async_fd, POLLIN, 0};
  return ::poll(&ready, 1, static_cast<int>(patience.count())) == 1;
}

std::optional<ibv_async_event> Nic::next_event(std::chrono::milliseconds patience) const {
  if (!has_event(patience)) return std::nullopt;
  ibv_async_event event{};
  if (ibv_get_async_event(context(), &event) != 0) return std::nullopt;
  return event;
}

bool Nic::expect_event(ibv_event_type type, const void* element) const {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string seen;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    auto event = left.count() > 0 ? next_event(left) : std::nullopt;
    if (!event) break;
    ibv_ack_async_event(&*event);
    if (event->event_type == type && (element == nullptr || element_of(*event) == element))
      return true;
    seen += std::string(", ") + ibv_event_type_str(event->event_type);
  }
  ADD_FAILURE() << "no event \"" << ibv_event_type_str(type) << "\" of the object came within "
                << kPatience.count() << " ms; seen: " << (seen.empty() ? "none" : seen.substr(2));
  return false;
}

void Nic::expect_no_event(ibv_event_type type) const {
  constexpr std::chrono::milliseconds kAWhile{30};
  while (auto event = next_event(kAWhile)) {
    ibv_ack_async_event(&*event);
    EXPECT_NE(event->event_type, type) << ibv_event_type_str(type) << " came unasked";
  }
}

void Conformance::SetUp() {
  // A verb that never returns ends the program, with the name of its case.
  constexpr unsigned kLongestCase_s = 30;
  ::alarm(kLongestCase_s);
}

void Conformance::TearDown() {
  EXPECT_FALSE(current_source().empty() && !IsSkipped()) << "the case names no source";
  ::alarm(0);
}

}  // namespace hbmwire::conformance
