// SPDX-License-Identifier: MIT
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdio>
#include <cstring>

/// A program that links to neither library and loads them in the given order: "verbs-first",
/// "rdmacm-first", or "again" (librdmacm is used, closed and loaded again). Exits with 0 if an id
/// can listen each time.
namespace {

template <typename Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

/// Loads libibverbs and opens the first device. Returns whether that works. The library stays
/// loaded and the device open.
bool open_device() {
  void* const verbs = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (verbs == nullptr) return false;
  int count = 0;
  ibv_device** const devices =
      function<decltype(ibv_get_device_list)>(verbs, "ibv_get_device_list")(&count);
  if (devices == nullptr || count == 0) return false;
  ibv_context* const context =
      function<decltype(ibv_open_device)>(verbs, "ibv_open_device")(devices[0]);
  return context != nullptr;
}

/// Listens with the librdmacm that was loaded as `rdmacm`. Returns whether that works.
bool use(void* rdmacm) {
  rdma_event_channel* const channel =
      function<decltype(rdma_create_event_channel)>(rdmacm, "rdma_create_event_channel")();
  if (channel == nullptr) return false;
  rdma_cm_id* id = nullptr;
  if (function<decltype(rdma_create_id)>(rdmacm, "rdma_create_id")(channel, &id, nullptr,
                                                                   RDMA_PS_TCP) != 0) {
    return false;
  }
  const bool listens = function<decltype(rdma_listen)>(rdmacm, "rdma_listen")(id, 1) == 0;
  function<decltype(rdma_destroy_id)>(rdmacm, "rdma_destroy_id")(id);
  function<decltype(rdma_destroy_event_channel)>(rdmacm, "rdma_destroy_event_channel")(channel);
  return listens;
}

void* load_rdmacm() { return ::dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL); }

}  // namespace

/// Leaks of closed libraries have no name that could be suppressed, and libibverbs keeps its
/// devices until the end.
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off();

extern "C" int __lsan_is_turned_off() { return 1; }

int main(int argc, char** argv) {
  const char* const order = argc > 1 ? argv[1] : "";
  if (std::strcmp(order, "verbs-first") == 0) {
    if (!open_device()) return 2;
    void* const rdmacm = load_rdmacm();
    return rdmacm != nullptr && use(rdmacm) ? 0 : 3;
  }
  if (std::strcmp(order, "rdmacm-first") == 0) {
    void* const rdmacm = load_rdmacm();
    if (rdmacm == nullptr || !open_device()) return 2;
    return use(rdmacm) ? 0 : 3;
  }
  if (std::strcmp(order, "again") == 0) {
    for (int round = 0; round < 2; ++round) {
      void* const rdmacm = load_rdmacm();
      if (rdmacm == nullptr || !use(rdmacm)) return 3 + round;
      ::dlclose(rdmacm);
    }
    return 0;
  }
  std::fprintf(stderr, "usage: %s verbs-first|rdmacm-first|again\n", argv[0]);
  return 1;
}
