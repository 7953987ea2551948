// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/version.hpp"

#include "tools/common/command_line.hpp"
#include "tools/common/nearest.hpp"
#include "tools/wire/messages.hpp"

namespace {

using namespace hbmwire::tools;

/// Replaces this process by the program of the emulated hardware, libexec/hbmwire/emulate below the
/// same prefix. Returns only if that fails.
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
  // Tries the place in the build tree first, then the installed one.
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

const char* program_name = "hbmwire";  // for messages

/// Prints why the program ends, and ends it without calling destructors.
[[noreturn]] void end_by(const char* why, hbmwire::Hint hint) noexcept {
  if (hint == hbmwire::Hint::none) {
    std::fprintf(stderr, "%s: %s\n", program_name, why);
  } else {
    const std::string_view remedy = hbmwire::hint_text(hint);
    const std::string_view name = to_string(hint);
    std::fprintf(stderr, "%s: %s; %.*s [%.*s]\n", program_name, why,
                 static_cast<int>(remedy.size()), remedy.data(), static_cast<int>(name.size()),
                 name.data());
  }
  std::_Exit(kExitFailed);
}

/// The limit of memory that the process has reached.
hbmwire::Hint memory_limit() noexcept {
  return hbmwire::system_error(hbmwire::Stage::allocate, "", ENOMEM).hint;
}

/// Handles an exception that no function below turns into an error (no memory for a text, no
/// thread). It ends the program with a message and an exit code, even if it is thrown in a thread
/// or in a noexcept function.
[[noreturn]] void end_by_exception() noexcept {
  using hbmwire::Hint;
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    end_by("no memory is left", memory_limit());
  } catch (const std::system_error& failure) {
    const bool threads = failure.code() == std::errc::resource_unavailable_try_again;
    // A thread also needs memory for its stack: if none is left, memory is the limit to name.
    const bool has_memory = memory_limit() == Hint::host_memory_exhausted;
    end_by(threads ? "a thread can't be started" : failure.what(), !threads ? Hint::none
                                                                   : has_memory
                                                                       ? Hint::process_limit
                                                                       : memory_limit());
  } catch (const std::exception& failure) {
    end_by(failure.what(), Hint::none);
  } catch (...) {
  }
  end_by("a fault of the program's own", Hint::none);
}

struct Entry {
  std::string_view name;
  std::string_view alias;  // the seeds' name for this program
  Command run;
  std::string_view what;
};

constexpr std::array<Entry, 8> kEntries{{
    {"server", "rdma_server", run_server,
     "wait for a client and exchange verified data with it by RDMA"},
    {"client", "rdma_client", run_client,
     "exchange verified data with a server, or send it a file"},
    {"perf", "", run_perf, "measure bandwidth and latency of RDMA, and verify what arrives"},
    {"info", "", run_info,
     "show NICs, accelerators, which is near which, settings, and what is missing"},
    {"stat", "", run_stat,
     "show what processes have moved, by which path, and what failed; for Prometheus, too"},
    {"doctor", "", run_doctor,
     "try every accelerator with every NIC, here or between two machines; say what is wrong and "
     "what "
     "mends it, explain errors"},
    {"trace", "", run_trace,
     "tell which transfers of a trace were slow, what they waited for, and when"},
    {"emulate", "", run_emulate, "run a command with emulated RDMA NICs and accelerators"},
}};

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string help_text() {
  std::string text =
      "usage: hbmwire COMMAND [OPTION]...\n\n"
      "Zero-copy RDMA between accelerator memories through DMA-BUF.\n\ncommands:\n";
  for (const auto& entry : kEntries) text += fmt::format("  {:<9}{}\n", entry.name, entry.what);
  return text +
         "\n  -h, --help     this text; `hbmwire COMMAND --help` explains a command\n"
         "      --version  the version, and those of the protocols that it speaks\n";
}

/// For all commands except `emulate`, which passes its descriptors and signals unchanged to its
/// COMMAND. If a standard descriptor was closed when the program began, opened files must not get
/// its number, since output would go to them; writing to it must still fail. A reader that leaves
/// and a file at its size limit (`ulimit -f`) must cause errors like a full disk, and no signals.
void prepare_output() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The kernel assigns the lowest free descriptor, which is this one.
    static_cast<void>(::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY));
  }
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  for (const int number : {SIGPIPE, SIGXFSZ}) ::sigaction(number, &ignore, nullptr);
}

/// For all commands except `emulate`, which has become another program.
int conclude(const std::string& program, int code) {
  if (code != kExitOk) return code;
  const auto written = written_stdout();
  if (written) return kExitOk;
  Output(program, Output::Mode::text).error(written.error().text);
  return written.error().exit_code;
}

int run(const Entry& entry, std::string name, int argc, char** argv) {
  argv[0] = name.data();
  if (entry.run == run_emulate) return run_emulate(argc, argv);
  prepare_output();
  program_name = argv[0];
  try {
    return conclude(name, entry.run(argc, argv));
  } catch (...) {  // unwinding has released all resources
    end_by_exception();
  }
}

/// Protocols have their own version numbers: two machines with the same numbers can communicate.
std::string version_text() {
  const auto protocols = hbmwire::protocol_versions();
  return fmt::format("hbmwire {}\nprotocols: endpoint {}, memory key {}, attach {}, tools {}\n",
                     to_string(hbmwire::version()), protocols.endpoint, protocols.memory_key,
                     protocols.attach, wire::kVersion);
}

/// --help and --version.
int run_print(int argc, char** argv) {
  const bool version = std::string_view(argv[argc - 1]) == "--version";
  write_stdout(version ? version_text() : help_text());
  return kExitOk;
}

int wrong_command(std::string_view command, int argc, char** argv) {
  prepare_output();
  const bool json = std::any_of(
      argv + 1, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  Output output("hbmwire", json ? Output::Mode::json : Output::Mode::text);
  std::vector<std::string> names;
  for (const auto& entry : kEntries) names.emplace_back(entry.name);
  const bool option = command.starts_with('-');
  std::string mistake = "the command is missing";
  if (!command.empty()) {
    mistake = option ? fmt::format("{}: an option follows its command", command)
                     : fmt::format("there is no command \"{}\"", command);
    if (const auto meant = nearest(command, names))
      mistake += fmt::format("; did you mean {}?", *meant);
  }
  if (command.empty()) fmt::print(stderr, "{}", help_text());
  return usage_error(output, mistake);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_by_exception);
  const std::string_view program = argc > 0 ? base_name(argv[0]) : "hbmwire";
  const auto alias = std::ranges::find(kEntries, program, &Entry::alias);
  if (alias != kEntries.end() && !program.empty())
    return run(*alias, std::string(program), argc, argv);

  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "-h" || command == "--help" || command == "--version")
    // 2 words: the program, and this option. run_print() ignores those that follow.
    return run({.name = {}, .alias = {}, .run = run_print, .what = {}}, "hbmwire", 2, argv);
  const auto entry = std::ranges::find(kEntries, command, &Entry::name);
  if (entry != kEntries.end())
    return run(*entry, "hbmwire " + std::string(command), argc - 1, argv + 1);
  return wrong_command(command, argc, argv);
}
