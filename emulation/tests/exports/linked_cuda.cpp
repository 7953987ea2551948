// SPDX-License-Identifier: MIT
//
// Linked by -lcuda, with the declarations that cuda.h has.
#include <cstdio>

extern "C" {
int cuInit(unsigned flags);
int cuDriverGetVersion(int* version);
int cuDeviceComputeCapability(int* major, int* minor, int device);
int cuModuleLoad(void** module, const char* file);
}

int main() {
  int version = 0;
  int major = 0;
  int minor = -1;
  void* module = nullptr;
  if (cuInit(0) != 0 || cuDriverGetVersion(&version) != 0 ||
      cuDeviceComputeCapability(&major, &minor, 0) != 0)
    return 1;
  const int loaded = cuModuleLoad(&module, "kernel.ptx");
  const int again = cuModuleLoad(&module, "kernel.ptx");
  std::printf("driver %d, capability %d.%d, module %d\n", version, major, minor, loaded);
  return again == loaded ? 0 : 1;
}
