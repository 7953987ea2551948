// SPDX-License-Identifier: MIT
#include "hbmwire/error.hpp"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/memory_room.hpp"
#include "base/status_names.hpp"

namespace hbmwire {

namespace {

// ENOTSUPP, the kernel's own code, which some drivers pass on to user space. No libc header defines
// it.
constexpr int kEnotsupp = 524;

Errc classify(int error_number) noexcept {
  switch (error_number) {
    case EINVAL:
    case EFAULT:
    case EBADF:
      return Errc::invalid_argument;
    case ENOENT:
    case ENODEV:
    case ENXIO:
      return Errc::not_found;
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT:
    case kEnotsupp:
      return Errc::not_supported;
    case EPERM:
    case EACCES:
      return Errc::permission_denied;
    case EBUSY:
    case EADDRINUSE:
      return Errc::busy;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOBUFS:
    case EDQUOT:
      return Errc::exhausted;
    case ETIMEDOUT:
      return Errc::timed_out;
    case ECONNRESET:
    case EPIPE:
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return Errc::peer_failed;
    case ECANCELED:
      return Errc::cancelled;
    default:
      return Errc::system;
  }
}

/// A known cause replaces the caller's hint: that one is about the call, but any call can run out
/// of descriptors. A full send queue is ENOMEM, too, but no shortage of memory.
Hint by_cause(int error_number, Stage stage, Hint hint) noexcept {
  if (error_number == EMFILE) return Hint::descriptor_limit;
  if (error_number == ENFILE) return Hint::system_descriptor_limit;
  const bool of_work = stage == Stage::post || stage == Stage::complete;
  const bool may_be_memory = hint == Hint::none || hint == Hint::queue_pair_limit;
  if (error_number != ENOMEM || of_work || !may_be_memory) return hint;
  const Hint reached = memory_hint(Memory::any);
  const bool known = reached != Hint::host_memory_exhausted;
  return known || hint == Hint::none ? reached : hint;
}

}  // namespace

bool is_shortage(const Error& error) noexcept {
  switch (error.hint) {  // the only sign of a shortage in a vendor's library
    case Hint::descriptor_limit:
    case Hint::system_descriptor_limit:
    case Hint::address_space_limit:
    case Hint::data_limit:
    case Hint::cgroup_memory_limit:
    case Hint::process_limit:
      return true;
    default:
      break;
  }
  if (error.number_kind != NumberKind::errno_value) return false;
  switch (error.number) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    case ENOSPC:
    case EDQUOT:
    case ENOBUFS:
      return true;
    default:
      return false;
  }
}

Error make_error(Errc code, Stage stage, const char* call, std::string_view subject,
                 Hint hint) noexcept {
  Error error;
  error.code = code;
  error.stage = stage;
  error.call = call;
  error.hint = hint;
  subject = subject.substr(0, sizeof error.subject - 1);
  std::copy(subject.begin(), subject.end(), error.subject);
  return error;
}

Error system_error(Stage stage, const char* call, int error_number, std::string_view subject,
                   Hint hint) noexcept {
  Error error =
      make_error(classify(error_number), stage, call, subject, by_cause(error_number, stage, hint));
  error.number_kind = NumberKind::errno_value;
  error.number = error_number;
  return error;
}

Error version_error(Stage stage, const char* call, std::string_view subject, std::uint16_t theirs,
                    std::uint16_t ours) noexcept {
  Error error = make_error(Errc::protocol, stage, call, subject, Hint::other_version);
  error.number_kind = NumberKind::protocol_versions;
  error.number = static_cast<std::int32_t>(std::uint32_t{theirs} << 16U | ours);
  return error;
}

std::string_view to_string(Stage stage) noexcept {
  switch (stage) {
    case Stage::configure:
      return "configure";
    case Stage::probe:
      return "probe";
    case Stage::open:
      return "open";
    case Stage::allocate:
      return "allocate";
    case Stage::export_dmabuf:
      return "export";
    case Stage::register_memory:
      return "register";
    case Stage::connect:
      return "connect";
    case Stage::post:
      return "post";
    case Stage::complete:
      return "complete";
    case Stage::copy:
      return "copy";
    case Stage::verify:
      return "verify";
    case Stage::file:
      return "file";
  }
  return "?";
}

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid argument";
    case Errc::not_found:
      return "not found";
    case Errc::not_supported:
      return "not supported";
    case Errc::permission_denied:
      return "permission denied";
    case Errc::busy:
      return "busy";
    case Errc::exhausted:
      return "exhausted";
    case Errc::timed_out:
      return "timed out";
    case Errc::peer_failed:
      return "the peer failed";
    case Errc::protocol:
      return "protocol error";
    case Errc::data_mismatch:
      return "data mismatch";
    case Errc::cancelled:
      return "cancelled";
    case Errc::system:
      return "system error";
  }
  return "?";
}

std::string number_text(const Error& error) {
  switch (error.number_kind) {
    case NumberKind::none:
      return {};
    case NumberKind::errno_value: {
      if (error.number == kEnotsupp) return "not supported by the driver (ENOTSUPP, 524)";
      const char* name = strerrorname_np(error.number);
      const char* text = strerrordesc_np(error.number);
      if (name == nullptr || text == nullptr) return fmt::format("errno {}", error.number);
      return fmt::format("{} ({}, {})", text, name, error.number);
    }
    case NumberKind::wc_status:
      return fmt::format("{} (work completion status {})", wc_status_name(error.number),
                         error.number);
    case NumberKind::syn_status:
      return fmt::format("{} (synStatus {})", syn_status_name(error.number), error.number);
    case NumberKind::cuda_result:
      return fmt::format("{} (CUresult {})", cuda_result_name(error.number), error.number);
    case NumberKind::hsa_status:
      return fmt::format("{} (hsa_status_t {:#x})", hsa_status_name(error.number), error.number);
    case NumberKind::hip_error:
      return fmt::format("{} (hipError_t {})", hip_error_name(error.number), error.number);
    case NumberKind::gai_error:
      return gai_strerror(error.number);
    case NumberKind::protocol_versions: {
      const auto both = static_cast<std::uint32_t>(error.number);
      return fmt::format("version {} there, {} here", both >> 16U, both & 0xffffU);
    }
  }
  return {};
}

std::string describe(const Error& error) { return describe(error, hint_text(error.hint)); }

std::string describe(const Error& error, std::string_view remedy) {
  std::string text{to_string(error.stage)};
  if (error.subject[0] != '\0') text += fmt::format(" {}", error.subject);
  text += fmt::format(": {}", error.call);
  if (std::string number = number_text(error); !number.empty()) {
    text += fmt::format(": {}", number);
  } else if (error.code == Errc::timed_out || error.code == Errc::cancelled) {
    text += fmt::format(": {}", to_string(error.code));
  }
  if (!remedy.empty()) text += fmt::format("; {}", remedy);
  return text;
}

}  // namespace hbmwire
