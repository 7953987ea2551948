// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>

#include <cerrno>

#include "emulation/nic/verbs/objects.hpp"

/// Steps that several kinds of objects share.
namespace hbmwire::emulation::nic {

/// man ibv_get_async_event, ibv_get_cq_event: destroying an object waits until its delivered events
/// are acknowledged. `handle` counts acknowledgements and has the mutex and the condition.
template <typename Handle, typename Acknowledged>
void wait_until_acknowledged(Handle& handle, Acknowledged acknowledged) {
  pthread_mutex_lock(&handle.mutex);
  while (!acknowledged()) pthread_cond_wait(&handle.cond, &handle.mutex);
  pthread_mutex_unlock(&handle.mutex);
}

/// Posts receives one after the other by `post`. Sets `bad` to the first that fails.
template <typename Post>
int post_receives(Process& process, std::string_view verb, ibv_recv_wr* first, ibv_recv_wr** bad,
                  Post post) {
  int error = data_path_failure(process, verb);
  if (error != 0) *bad = first;
  for (ibv_recv_wr* wr = first; error == 0 && wr != nullptr; wr = wr->next) {
    error = post(*wr);
    if (error != 0) *bad = wr;
  }
  return error;
}

}  // namespace hbmwire::emulation::nic
