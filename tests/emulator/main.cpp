// SPDX-License-Identifier: MIT
// `emulator emulate ...` is `hbmwire emulate ...` without the other subcommands.
#include <cstdio>
#include <string_view>

#include "tools/common/command.hpp"

int main(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "emulate") {
    std::fputs("usage: emulator emulate [OPTION]... [--] COMMAND [ARGUMENT]...\n", stderr);
    return hbmwire::tools::kExitUsage;
  }
  return hbmwire::tools::run_emulate(argc - 1, argv + 1);
}
