// SPDX-License-Identifier: MIT
//
// Linked by -lamdhip64, with the declarations of hip_runtime_api.h of HIP 6 and 7, which make
// hipGetDevicePropertiesR0600 of hipGetDeviceProperties.
#include <cstdio>
#include <cstring>

extern "C" {
int hipGetDevicePropertiesR0600(void* properties, int device);
int hipModuleLoad(void** module, const char* file);
}

int main() {
  // The size of hipDeviceProp_tR0600 and the offset of its member isLargeBar. The name is first.
  constexpr int kPropertiesBytes = 1472;
  constexpr int kIsLargeBarAt = 1464;
  alignas(8) char properties[kPropertiesBytes] = {};
  void* module = nullptr;
  if (hipGetDevicePropertiesR0600(properties, 0) != 0) return 1;
  int large_bar = -1;
  std::memcpy(&large_bar, properties + kIsLargeBarAt, sizeof large_bar);
  std::printf("%s, large BAR %d, module %d\n", properties, large_bar,
              hipModuleLoad(&module, "kernel.co"));
  return 0;
}
