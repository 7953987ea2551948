// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "hbmwire/export.hpp"

#include <tl/expected.hpp>

namespace hbmwire {

/// Where in a buffer's life something failed.
enum class Stage : std::uint8_t {
  configure,        ///< reading options and environment
  probe,            ///< looking for devices, drivers, libraries
  open,             ///< opening a device
  allocate,         ///< allocating or mapping memory
  export_dmabuf,    ///< asking an accelerator's driver for a dma-buf
  register_memory,  ///< telling a NIC about memory
  connect,          ///< reaching, greeting and wiring up a peer
  post,             ///< handing work to a queue
  complete,         ///< waiting for work, or learning how it ended
  copy,             ///< moving bytes by a device's own engine
  verify,           ///< comparing contents
  file,             ///< reading or writing a file
};

/// The kind of a failure: what a program can decide on.
enum class Errc : std::uint8_t {
  invalid_argument,   ///< the caller asked for something impossible
  not_found,          ///< no such device, library, host or name
  not_supported,      ///< this device, driver or kernel can't do it
  permission_denied,  ///< the operating system or the peer refused
  busy,               ///< another owner has it
  exhausted,          ///< no more memory, handles or room
  timed_out,          ///< the deadline passed
  peer_failed,        ///< the peer went away, reported a failure, or broke the protocol
  protocol,           ///< the peer speaks another protocol or version
  data_mismatch,      ///< bytes are not what they should be
  cancelled,          ///< the caller asked to stop
  system,             ///< any other failure of a call; `number` says which
};

/// How to read Error::number.
enum class NumberKind : std::uint8_t {
  none,               ///< there is no number
  errno_value,        ///< errno(3), always positive
  wc_status,          ///< enum ibv_wc_status, ibv_poll_cq(3)
  syn_status,         ///< synStatus of SynapseAI
  cuda_result,        ///< CUresult of the CUDA driver API
  hsa_status,         ///< hsa_status_t of ROCr
  hip_error,          ///< hipError_t of HIP
  gai_error,          ///< EAI_*, getaddrinfo(3)
  protocol_versions,  ///< 65536 times the peer's version, plus this end's; see version_error()
};

/// Names a remedy. hint_text() gives the sentence; `hbmwire doctor explain` tells more.
enum class Hint : std::uint8_t {
  none,
  no_rdma_device,
  no_such_rdma_device,
  no_active_port,
  no_usable_gid,
  no_hl_thunk,
  no_synapse,
  old_hl_thunk,
  no_gaudi_device,
  no_such_gaudi_device,
  gaudi_busy,
  gaudi_resetting,
  gaudi1_memory,
  synapse_pool_base,
  synapse_one_card,
  device_memory_exhausted,
  export_refused,
  memlock_limit,
  not_host_memory,
  memory_not_writable,
  memory_beyond_file,
  memory_gone,
  peer_memory_gone,
  not_for_local_writing,
  region_too_large,
  forked_nic,
  descriptor_limit,
  system_descriptor_limit,
  host_memory_exhausted,
  address_space_limit,
  data_limit,
  cgroup_memory_limit,
  process_limit,
  queue_pair_limit,
  completion_queue_length,
  no_such_advice,
  huge_pages_exhausted,
  no_huge_pages,
  no_such_numa_node,
  numa_refused,
  dmabuf_not_supported,
  dmabuf_no_p2p,
  dmabuf_rejected,
  dmabuf_read_only,
  dmabuf_page_offset,
  import_dmabuf,
  attach_gone,
  attach_silent,
  attach_other_user,
  attach_withdrawn,
  attach_no_dmabuf,
  qp_attributes,
  remote_key,
  peer_unreachable,
  receiver_not_ready,
  peer_gone,
  peer_slow,
  not_hbmwire,
  other_version,
  name_resolution,
  connection_refused,
  host_unreachable,
  port_in_use,
  port_privileged,
  not_our_address,
  setting_choices,
  ambiguous_address,
  no_cuda,
  no_cuda_device,
  no_such_device,
  cuda_dmabuf_not_supported,
  cuda_pcie_mapping,
  cuda_after_fork,
  managed_memory,
  cuda_memory_exhausted,
  dmabuf_forbidden,
  no_rocm,
  no_rocm_device,
  rocm_dmabuf_not_supported,
  rocm_foreign_memory,
  not_a_dmabuf,
  settings_file,
  nic_permission,
  no_userfaultfd,
  memory_not_watched,
  memory_key_bytes,
  memory_key_access,
  memory_key_not_revocable,
  memory_key_other_process,
  memory_key_expired,
  memory_key_nic,
  remote_region_stale,
  region_name,
  transfers_exhausted,
  peer_broke_off,
  peer_unsettled,
  path_policy,
  other_transfer,
  completions_lost,
  reconnect,
  pre_shared_key,
  pre_shared_key_file,
  peer_full,
  invitation,
  rdma_cm,
  message_truncated,
  message_let_go,
  no_atomics,
  address_scope,
  link_options,
  retries_outlast,
  rdma_cm_route,
  group_launcher,
  group_rank_gone,
  group_no_agreement,
  group_rank_late,
};

/// Why an operation failed. Trivially copyable, never allocates. describe() makes a sentence of it.
struct Error {
  Errc code = Errc::system;                   ///< the kind of failure
  Stage stage = Stage::configure;             ///< where it happened
  NumberKind number_kind = NumberKind::none;  ///< how to read `number`
  Hint hint = Hint::none;                     ///< the remedy: hint_text()
  std::int32_t number = 0;  ///< errno or status of the call; its kind is `number_kind`
  const char* call = "";    ///< static string: the call or the check that failed
  char subject[48] = {};    ///< device, host or name it concerns; NUL-terminated, may be empty

  bool operator==(const Error&) const = delete;
};

static_assert(std::is_trivially_copyable_v<Error>);

/// A value, or the Error that explains why there is none. A function that returns a Result throws
/// nothing. Without memory it returns Errc::exhausted (Hint::host_memory_exhausted), begins
/// nothing, and may be called again. On a connection such a failure may end the connection
/// (EndpointPhase::ending). Functions that return text or reports (describe(), explain()) throw
/// std::bad_alloc instead, and say so.
template <class T>
using Result = tl::expected<T, Error>;

/// An error of a call that set errno. Maps well-known values to an Errc. EMFILE and ENFILE have the
/// same remedy for every call, which replaces `hint`. ENOMEM without a hint gets the limit that the
/// process has reached, as far as the kernel tells.
[[nodiscard]] HBMWIRE_API Error system_error(Stage stage, const char* call, int error_number,
                                             std::string_view subject = {},
                                             Hint hint = Hint::none) noexcept;

/// Whether the error is a shortage that may pass: descriptors, memory, processes or room on a file
/// system were used up (errno EMFILE, ENFILE, ENOMEM, EAGAIN, ENOSPC, EDQUOT, ENOBUFS). The library
/// never takes a slower path because of a shortage.
[[nodiscard]] HBMWIRE_API bool is_shortage(const Error& error) noexcept;

/// An error that a check found, rather than a call.
[[nodiscard]] HBMWIRE_API Error make_error(Errc code, Stage stage, const char* call,
                                           std::string_view subject = {},
                                           Hint hint = Hint::none) noexcept;

/// The peer, or its bytes, have another version of a protocol or format than this end:
/// Errc::protocol, Hint::other_version, and both numbers.
[[nodiscard]] HBMWIRE_API Error version_error(Stage stage, const char* call,
                                              std::string_view subject, std::uint16_t theirs,
                                              std::uint16_t ours) noexcept;

/// The word that users see: "connect", "not found" and so on.
[[nodiscard]] HBMWIRE_API std::string_view to_string(Stage stage) noexcept;
[[nodiscard]] HBMWIRE_API std::string_view to_string(Errc code) noexcept;

/// The remedy, as a sentence without its full stop; empty for Hint::none. It names calls and
/// settings of the library and programs of the system, but no options of a program.
[[nodiscard]] HBMWIRE_API std::string_view hint_text(Hint hint) noexcept;

/// The hint's name, spelt as its enumerator: "no_rdma_device"; "none" for Hint::none. Empty for a
/// number that is no hint of this version, so that a loop from 0 up to the first empty name gives
/// all hints. `hbmwire doctor explain NAME` tells what causes the failure and what to do.
[[nodiscard]] HBMWIRE_API std::string_view to_string(Hint hint) noexcept;

/// The hint of this name, or nothing if there is none. The inverse of to_string(Hint).
[[nodiscard]] HBMWIRE_API std::optional<Hint> hint_from_name(std::string_view name) noexcept;

/// The decoded number, for example "ENOTSUPP (524)" or "remote access error (10)"; empty without a
/// number. Throws std::bad_alloc, as every function that returns text.
[[nodiscard]] HBMWIRE_API std::string number_text(const Error& error);

/// One sentence: stage, subject, cause and remedy. The remedy is that of hint_text(), which names
/// the library's calls and settings. Throws std::bad_alloc.
[[nodiscard]] HBMWIRE_API std::string describe(const Error& error);

/// The same with the caller's own remedy, for programs whose users know options rather than calls.
/// If `remedy` is empty, the sentence has none.
[[nodiscard]] HBMWIRE_API std::string describe(const Error& error, std::string_view remedy);

}  // namespace hbmwire

// NOLINTBEGIN(bugprone-macro-parentheses): declarations and lvalues cannot be parenthesised.
#define HBMWIRE_CONCAT_(a, b) a##b
#define HBMWIRE_CONCAT(a, b) HBMWIRE_CONCAT_(a, b)
/// Returns the error of a Result from the enclosing function, or goes on.
#define HBMWIRE_TRY(expression)                                \
  do {                                                         \
    if (auto hbmwire_result_ = (expression); !hbmwire_result_) \
      return ::tl::make_unexpected(hbmwire_result_.error());   \
  } while (false)
#define HBMWIRE_TRY_ASSIGN_(temporary, lhs, expression)            \
  auto temporary = (expression);                                   \
  if (!temporary) return ::tl::make_unexpected(temporary.error()); \
  lhs = std::move(*temporary)
/// Assigns the value of a Result to `lhs` (may be a declaration), or returns its error.
#define HBMWIRE_TRY_ASSIGN(lhs, expression) \
  HBMWIRE_TRY_ASSIGN_(HBMWIRE_CONCAT(hbmwire_result_, __COUNTER__), lhs, expression)
// NOLINTEND(bugprone-macro-parentheses)
