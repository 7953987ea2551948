// SPDX-License-Identifier: MIT
// libexec/hbmwire/emulate, which `hbmwire emulate` starts.
#include <cstdio>
#include <exception>
#include <new>

#include "emulation/tool/child.hpp"
#include "emulation/tool/emulate.hpp"

int main(int argc, char** argv) {
  using namespace hbmwire::emulation::tool;
  try {
    return run_emulate(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs(
        "hbmwire emulate: no memory is left; raise this process's limits (`ulimit -v`, the "
        "container's memory)\n",
        stderr);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "hbmwire emulate: %s\n", failure.what());
  }
  return kExitSetup;
}
