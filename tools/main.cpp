// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "tools/common/command.hpp"

#ifndef HBMWIRE_VERSION
#error "the build names the version"
#endif

namespace {

using namespace hbmwire::tools;

/// Replaces this process by the program of the emulated hardware, libexec/hbmwire/emulate below the
/// same prefix. Returns only if that cannot be started.
int run_emulate(int /*argc*/, char** argv) {
  std::error_code failure;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) {
    std::fprintf(
        stderr,
        "hbmwire emulate: cannot find this program's own file by /proc/self/exe: %s; mount "
        "/proc\n",
        failure.message().c_str());
    return kExitSetup;
  }
  // As in the build tree, then as installed.
  std::filesystem::path program;
  int error = ENOENT;
  for (const char* from_bin : {"../libexec/hbmwire", HBMWIRE_LIBEXEC_FROM_BIN}) {
    program = (self.parent_path() / from_bin / "emulate").lexically_normal();
    ::execv(program.c_str(), argv);
    error = errno;
    if (error != ENOENT) break;
  }
  if (error == ENOENT) {
    std::fprintf(stderr,
                 "hbmwire emulate: the emulated hardware is not installed: there is no %s; build "
                 "with -DHBMWIRE_BUILD_EMULATION=ON and install again, or install the project "
                 "emulation/ below the same prefix\n",
                 program.c_str());
  } else {
    std::fprintf(stderr, "hbmwire emulate: cannot run %s: %s\n", program.c_str(),
                 std::strerror(error));
  }
  return kExitSetup;
}

struct Entry {
  std::string_view name;
  std::string_view alias;  // a name of the program itself: the seeds'
  Command run;
  std::string_view what;
};

constexpr std::array<Entry, 5> kEntries{{
    {"server", "rdma_server", run_server,
     "wait for a client and exchange verified data with it by RDMA"},
    {"client", "rdma_client", run_client,
     "exchange verified data with a server, or send it a file"},
    {"perf", "", run_perf, "measure bandwidth and latency of RDMA, and verify what arrives"},
    {"info", "", run_info,
     "show NICs, accelerators, which is near which, settings, and what is missing"},
    {"emulate", "", run_emulate, "run a command with emulated RDMA NICs and accelerators"},
}};

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

void print_help(std::FILE* to) {
  std::fputs(
      "usage: hbmwire COMMAND [OPTION]...\n\n"
      "Zero-copy RDMA between accelerator memories through DMA-BUF.\n\ncommands:\n",
      to);
  for (const auto& entry : kEntries) {
    std::fprintf(to, "  %-9.*s%.*s\n", static_cast<int>(entry.name.size()), entry.name.data(),
                 static_cast<int>(entry.what.size()), entry.what.data());
  }
  std::fputs(
      "\n  -h, --help     this text; `hbmwire COMMAND --help` explains a command\n"
      "      --version  the version\n",
      to);
}

int run(const Entry& entry, std::string name, int argc, char** argv) {
  argv[0] = name.data();
  return entry.run(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view program = argc > 0 ? base_name(argv[0]) : "hbmwire";
  const auto alias = std::ranges::find(kEntries, program, &Entry::alias);
  if (alias != kEntries.end() && !program.empty())
    return run(*alias, std::string(program), argc, argv);

  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "-h" || command == "--help") {
    print_help(stdout);
    return kExitOk;
  }
  if (command == "--version") {
    std::puts("hbmwire " HBMWIRE_VERSION);
    return kExitOk;
  }
  const auto entry = std::ranges::find(kEntries, command, &Entry::name);
  if (entry != kEntries.end())
    return run(*entry, "hbmwire " + std::string(command), argc - 1, argv + 1);
  if (!command.empty()) {
    std::fprintf(stderr, "hbmwire: there is no command \"%.*s\"\n",
                 static_cast<int>(command.size()), command.data());
  }
  print_help(stderr);
  return kExitUsage;
}
