// SPDX-License-Identifier: MIT
#include "emulation/nic/state/thread.hpp"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <thread>

namespace hbmwire::emulation::nic {

bool start_thread(const char* name, void (*body)(void*), void* argument) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread thread(body, argument);
    pthread_setname_np(thread.native_handle(), name);
    thread.detach();
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace hbmwire::emulation::nic
