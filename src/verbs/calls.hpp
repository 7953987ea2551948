// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <string_view>
#include <tuple>

#include "hbmwire/error.hpp"

#include "verbs/handles.hpp"

// libibverbs reports failures in three ways. Each is decoded here and nowhere else.
namespace hbmwire::verbs {

/// For calls that return NULL with errno: ibv_open_device(3), ibv_alloc_pd(3), ibv_reg_mr(3),
/// ibv_create_*(3).
template <class Handle>
Result<Handle> from_pointer(typename Handle::type pointer, Stage stage, const char* call,
                            std::string_view subject, Hint hint = Hint::none) {
  if (pointer == nullptr) {
    // Some providers leave errno at 0; a failure must still become an error.
    return tl::make_unexpected(system_error(stage, call, errno != 0 ? errno : EIO, subject, hint));
  }
  return Handle{pointer};
}

/// For calls that return a positive errno: ibv_modify_qp(3), ibv_post_send(3), ibv_query_port(3),
/// ibv_req_notify_cq(3), ...
inline Result<void> from_errno_result(int result, Stage stage, const char* call,
                                      std::string_view subject, Hint hint = Hint::none) {
  if (result == 0) return {};
  // Some return -1 with errno, although their manual page says otherwise.
  const int error_number = result > 0 ? result : (result == -1 && errno != 0 ? errno : -result);
  return tl::make_unexpected(system_error(stage, call, error_number, subject, hint));
}

/// For calls that return -1 with errno, or another number and errno: ibv_query_gid(3),
/// ibv_get_cq_event(3).
inline Result<void> from_minus_one(int result, Stage stage, const char* call,
                                   std::string_view subject) {
  if (result == 0) return {};
  return tl::make_unexpected(system_error(stage, call, errno != 0 ? errno : EIO, subject));
}

}  // namespace hbmwire::verbs
