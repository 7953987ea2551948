// SPDX-License-Identifier: MIT
#include "base/status_names.hpp"

#include <array>
#include <cstddef>

namespace hbmwire {

std::string_view wc_status_name(int status) noexcept {
  // In the order of enum ibv_wc_status, which starts at 0 and has no gaps.
  static constexpr std::array<std::string_view, 24> kNames{
      "success",
      "local length error",
      "local queue pair operation error",
      "local EE context operation error",
      "local protection error",
      "flushed, since an earlier request on the queue pair failed",
      "memory window bind error",
      "bad response",
      "local access error",
      "remote invalid request",
      "remote access error",
      "remote operation error",
      "transport retries exceeded",
      "receiver-not-ready retries exceeded",
      "local RDD violation",
      "remote invalid RD request",
      "remote aborted",
      "invalid EE context number",
      "invalid EE context state",
      "fatal error",
      "response timeout",
      "general error",
      "tag matching error",
      "tag matching rendezvous incomplete",
  };
  const auto index = static_cast<std::size_t>(status);
  return status >= 0 && index < kNames.size() ? kNames.at(index) : "unknown status";
}

std::string_view syn_status_name(int status) noexcept {
  switch (status) {
    case 0:
      return "success";
    case 1:
      return "invalid argument";
    case 2:
      return "command buffer full";
    case 3:
      return "out of host memory";
    case 4:
      return "out of device memory";
    case 5:
      return "object already initialized";
    case 6:
      return "object not initialized";
    case 7:
      return "command submission failed";
    case 8:
      return "no device found";
    case 17:
      return "device was reset";
    case 18:
      return "unsupported";
    case 20:
      return "device already acquired";
    case 22:
      return "busy";
    case 23:
      return "all resources taken";
    case 24:
      return "unavailable";
    case 26:
      return "failed";
    case 27:
      return "out of resources";
    case 28:
      return "not initialized";
    case 29:
      return "already initialized";
    case 31:
      return "SynapseAI was terminated";
    case 42:
      return "timeout";
    case 43:
      return "bad use of a resource";
    default:
      return "unknown status";
  }
}

std::string_view cuda_result_name(int result) noexcept {
  switch (result) {
    case 0:
      return "success";
    case 1:
      return "invalid value";
    case 2:
      return "out of memory";
    case 3:
      return "not initialized";
    case 4:
      return "the driver is shutting down";
    case 100:
      return "no CUDA-capable device";
    case 101:
      return "invalid device";
    case 201:
      return "invalid context";
    case 205:
      return "mapping failed";
    case 208:
      return "already mapped";
    case 304:
      return "an operating system call failed";
    case 400:
      return "invalid handle";
    case 700:
      return "illegal address";
    case 719:
      return "launch failed";
    case 800:
      return "not permitted";
    case 801:
      return "not supported";
    case 802:
      return "system not ready";
    case 803:
      return "driver and library versions differ";
    case 999:
      return "unknown error";
    default:
      return "an error without a name here";
  }
}

std::string_view hsa_status_name(int status) noexcept {
  switch (status) {
    case 0x0:
      return "success";
    case 1:
      return "interrupted by the application";
    case 0x1000:
      return "error";
    case 0x1001:
      return "invalid argument";
    case 0x1003:
      return "invalid allocation";
    case 0x1004:
      return "invalid agent";
    case 0x1006:
      return "invalid signal";
    case 0x1008:
      return "out of resources";
    case 0x100a:
      return "a resource can't be released";
    case 0x100b:
      return "not initialized";
    case 0x100c:
      return "initialized too often";
    case 0x1016:
      return "exception on the device";
    case 0x1026:
      return "fatal error";
    case 40:
      return "invalid memory pool";
    case 43:
      return "memory fault on the device";
    case 46:
      return "resource busy";
    case 47:
      return "not supported";
    default:
      return "an error without a name here";
  }
}

std::string_view hip_error_name(int error) noexcept {
  switch (error) {
    case 0:
      return "success";
    case 1:
      return "invalid value";
    case 2:
      return "out of memory";
    case 3:
      return "not initialized";
    case 4:
      return "the library is shutting down";
    case 17:
      return "invalid device pointer";
    case 21:
      return "invalid direction of a copy";
    case 100:
      return "no device";
    case 101:
      return "invalid device";
    case 201:
      return "invalid context";
    case 304:
      return "an operating system call failed";
    case 400:
      return "invalid handle";
    case 600:
      return "not ready";
    case 700:
      return "illegal address";
    case 712:
      return "host memory is registered already";
    case 713:
      return "host memory is not registered";
    case 719:
      return "launch failed";
    case 801:
      return "not supported";
    case 999:
      return "unknown error";
    case 1052:
      return "ROCr's memory call failed";
    case 1053:
      return "ROCr's call failed";
    default:
      return "an error without a name here";
  }
}

}  // namespace hbmwire
