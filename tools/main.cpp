// SPDX-License-Identifier: MIT
#include <array>
#include <cstdio>
#include <cstring>

#include "tools/common/command.hpp"

int main(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "emulate") != 0) {
    std::fputs("usage: hbmwire emulate [OPTION]... -- COMMAND\n", stderr);
    return hbmwire::tools::kExitUsage;
  }
  static std::array name = std::to_array("hbmwire emulate");
  argv[1] = name.data();
  return hbmwire::tools::run_emulate(argc - 1, argv + 1);
}
