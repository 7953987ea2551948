// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>

#include <cerrno>

#include "emulation/nic/verbs/objects.hpp"

/// What several kinds of objects do alike.
namespace hbmwire::emulation::nic {

/// man ibv_get_async_event, ibv_get_cq_event: destroying waits until what was delivered has been
/// acknowledged. `handle` counts acknowledgements and has the mutex and the condition for it.
template <typename Handle, typename Acknowledged>
void wait_until_acknowledged(Handle& handle, Acknowledged acknowledged) {
  pthread_mutex_lock(&handle.mutex);
  while (!acknowledged()) pthread_cond_wait(&handle.cond, &handle.mutex);
  pthread_mutex_unlock(&handle.mutex);
}

/// Posts receives one after the other, each by `post`; `bad` is the first that fails.
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
