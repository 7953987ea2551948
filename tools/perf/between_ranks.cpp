// SPDX-License-Identifier: MIT
#include "tools/perf/between_ranks.hpp"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "hbmwire/group.hpp"
#include "hbmwire/host_port.hpp"

#include "tools/common/finish.hpp"
#include "tools/perf/measure.hpp"
#include "tools/perf/meeting.hpp"
#include "tools/wire/control_listener.hpp"

namespace hbmwire::tools::perf {
namespace {

// Runs of -D may take a week.
constexpr std::chrono::hours kLongest{24 * 8};

/// Exchanges the server's address among all ranks, and returns it.
Outcome<std::string> tell_server(Group& group, std::uint32_t server,
                                 const std::optional<wire::ControlListener>& listener,
                                 const Wait& wait) {
  std::string mine;
  const auto& addresses = group.members()[group.rank()].addresses;
  if (listener && !addresses.empty()) {
    HBMWIRE_TRY_ASSIGN(const HostPort at, split_host_port(addresses.front()));
    mine = join_host_port(at.host, listener->port());  // the group's address has another port
  }
  HBMWIRE_TRY_ASSIGN(const auto told, group.exchange(std::as_bytes(std::span(mine)), wait));
  const auto& bytes = told[server];
  if (!bytes.empty()) return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return fail(fmt::format(
      "connect: rank {} has told no address that others reach; give it one with --bind", server));
}

/// Rank A measures as if `host` had been HOST on the command line.
int run_client(int argc, char** argv, std::string host, const Interrupt& interrupt) {
  std::vector<char*> words(argv, argv + argc);
  words.push_back(host.data());
  words.push_back(nullptr);  // as argv ends
  Options options;
  if (const auto code = parse_options(argv[0], argc + 1, words.data(), options)) return *code;
  return measure(options, argv[0], interrupt, {});
}

/// Rank B prints and writes nothing: the client does.
int run_server(const Options& asked, const char* program, wire::ControlListener listener,
               const Interrupt& interrupt) {
  Options options = asked;
  options.json = false;
  options.quiet = true;
  options.json_file.clear();
  options.plot_file.clear();
  options.compare_file.clear();
  return measure(options, program, interrupt, std::move(listener));
}

}  // namespace

int run_between_ranks(const Options& options, int argc, char** argv, const Interrupt& interrupt) {
  const auto [client, server] = *options.ranks;
  Output output(argv[0], options.output_mode());
  auto group = meet(options.bind, options.patience, interrupt.fd());
  if (!group) return finish(output, group.error(), Json::object());
  if (client >= group->size() || server >= group->size()) {
    const Failure wrong(fmt::format("configure: --ranks {},{}: the group has ranks 0 to {}; name "
                                    "two of them",
                                    client, server, group->size() - 1),
                        kExitUsage);
    // All ranks see the mistake; one message is enough.
    return group->rank() == 0 ? finish(output, wrong, Json::object()) : wrong.exit_code;
  }
  std::optional<wire::ControlListener> listener;
  if (group->rank() == server) {
    auto listening = wire::ControlListener::listen(options.bind, /*port=*/0);
    if (!listening) return finish(output, Failure(listening.error()), Json::object());
    listener.emplace(std::move(*listening));
  }
  const Wait wait{Deadline::after(options.patience), interrupt.fd()};
  auto host = tell_server(*group, server, listener, wait);
  if (!host) return finish(output, host.error(), Json::object());
  int code = kExitOk;
  if (group->rank() == client)
    code = run_client(argc, argv, std::move(*host), interrupt);
  else if (listener)
    code = run_server(options, argv[0], std::move(*listener), interrupt);
  // The ranks that do not measure wait here.
  const auto over = group->barrier(Wait{Deadline::after(kLongest), interrupt.fd()});
  if (over || code != kExitOk) return code;
  return finish(output, Failure(over.error()), Json::object());
}

}  // namespace hbmwire::tools::perf
