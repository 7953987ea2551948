// SPDX-License-Identifier: MIT
//
// Linked by -lhsa-runtime64, with the declarations that hsa.h has.
#include <cstdint>
#include <cstdio>

extern "C" {
int hsa_init();
int hsa_shut_down();
int hsa_signal_create(std::int64_t value, std::uint32_t consumers, const void* agents,
                      std::uint64_t* signal);
void hsa_signal_add_relaxed(std::uint64_t signal, std::int64_t value);
std::int64_t hsa_signal_load_relaxed(std::uint64_t signal);
int hsa_queue_create(std::uint64_t agent, std::uint32_t size, int type, void* callback, void* data,
                     std::uint32_t private_bytes, std::uint32_t group_bytes, void** queue);
}

int main() {
  std::uint64_t signal = 0;
  void* queue = nullptr;
  if (hsa_init() != 0 || hsa_signal_create(1, 0, nullptr, &signal) != 0) return 1;
  hsa_signal_add_relaxed(signal, 2);
  std::printf("signal %jd, queue %d\n", static_cast<std::intmax_t>(hsa_signal_load_relaxed(signal)),
              hsa_queue_create(1, 64, 0, nullptr, nullptr, 0, 0, &queue));
  return hsa_shut_down();
}
