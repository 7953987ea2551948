// SPDX-License-Identifier: MIT
//
// Linked by -lhl-thunk, with the declarations that hlthunk.h has.
#include <cstdint>
#include <cstdio>

extern "C" {
int hlthunk_get_device_count(int device_name);
int hlthunk_open(int device_name, const char* busid);
int hlthunk_close(int fd);
bool hlthunk_is_device_idle(int fd);
int hlthunk_get_dram_usage(int fd, std::uint64_t* free_and_used);
int hlthunk_get_power_info(int fd, std::uint64_t* power);
}

int main() {
  constexpr int kDontCare = 4;  // HLTHUNK_DEVICE_DONT_CARE: a card of any generation
  const int fd = hlthunk_open(kDontCare, nullptr);
  std::uint64_t usage[2] = {};
  std::uint64_t power = 0;
  if (fd < 0 || hlthunk_get_dram_usage(fd, usage) != 0) return 1;
  std::printf("count %d, idle %d, bytes %ju, power %d\n", hlthunk_get_device_count(kDontCare),
              hlthunk_is_device_idle(fd) ? 1 : 0, static_cast<std::uintmax_t>(usage[0]),
              hlthunk_get_power_info(fd, &power));
  return hlthunk_close(fd);
}
