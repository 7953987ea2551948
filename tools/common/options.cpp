// SPDX-License-Identifier: MIT
#include "tools/common/options.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tools/common/command_line.hpp"
#include "tools/common/text.hpp"

namespace hbmwire::tools {
namespace {

// Two halves of a buffer, each rounded up to a page, must fit into 64 bits.
constexpr std::uint64_t kLargestSizeBytes = std::uint64_t{1} << 60;

/// The names of values, in the order of the help.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

// Adds an option with named values; `known` must outlive the app.
template <class T>
void add_choice(CLI::App& app, const std::string& flags, T& value, const Choices<T>& known,
                const std::string& usual, const std::string& help) {
  const auto set = [&value, &known](const std::string& name) {
    value = std::ranges::find(known, name, &Choices<T>::value_type::first)->second;
  };
  std::vector<std::string> names;
  for (const auto& [name, unused] : known) names.push_back(name);
  app.add_option_function<std::string>(flags, set, help)
      ->check(CLI::IsMember(std::set(names.begin(), names.end())))
      ->option_text(alternatives(names, usual));
}

void add_memory_options(CLI::App& app, CommonOptions& options) {
  using Owner = MemoryOptions::Owner;
  static const Choices<std::optional<MemoryType>> choices{{"gaudi", MemoryType::gaudi},
                                                          {"cuda", MemoryType::cuda},
                                                          {"rocm", MemoryType::rocm},
                                                          {"host", MemoryType::host},
                                                          {"auto", std::nullopt}};
  static const Choices<Owner> owners{
      {"auto", Owner::automatic}, {"synapse", Owner::synapse}, {"hl-thunk", Owner::hl_thunk}};
  add_choice(
      app, "-m,--memory", options.memory, choices, "auto",
      "Where the buffer lies: gaudi, cuda, rocm (never anything else), host, or auto (the first "
      "of these that there is, and it says why not the others)");
  app.add_option("--card", options.device.device, "Which card or GPU: a PCI address, or an index")
      ->option_text("CARD");
  add_choice(app, "--owner", options.device.owner, owners, "HBMWIRE_GAUDI_OWNER, else auto",
             "The library that drives Gaudi cards in this process");
}

void set_size(std::uint64_t& size_bytes, const std::string& text) {
  const auto size = parse_size(text);
  if (!size || *size > kLargestSizeBytes) {
    throw CLI::ValidationError("--size",
                               "give a number of bytes from 1 on, or one with K, M, G or T for "
                               "2^10 to 2^40 (4M)");
  }
  size_bytes = *size;
}

}  // namespace

void add_common_options(CLI::App& app, CommonOptions& options) {
  app.add_option("-p,--port", options.port, "TCP port on which the two find each other")
      ->check(is_port())
      ->option_text("PORT [20000]");
  app.add_option("-d,--device", options.nic,
                 "RDMA device, or device:port; the first with an active port if not given")
      ->option_text("DEVICE");
  app.add_option_function<std::string>(
         "-s,--size", [&options](const std::string& text) { set_size(options.size_bytes, text); },
         "Size of a transfer in bytes; K, M, G, T are taken")
      ->option_text("BYTES [4194304]");
  app.add_option_function<std::uint32_t>(
         "-n,--iterations", [&options](const std::uint32_t& count) { options.iterations = count; },
         "How often to send and receive")
      ->check(CLI::Range(1, 1000000))
      ->option_text("COUNT [3]");
  add_memory_options(app, options);
  app.add_option_function<std::uint32_t>(
         "--timeout",
         [&options](const std::uint32_t& seconds) {
           options.patience = std::chrono::seconds(seconds);
         },
         "Give up when the peer makes no progress for so long")
      ->check(CLI::Range(1, 86400))
      ->option_text("SECONDS [30]");
  app.add_flag("--json", options.json, "Print one JSON object at the end instead of text");
  app.add_flag("-q,--quiet", options.quiet, "Print errors only");
}

std::optional<std::string> contradiction_in(const CommonOptions& options) {
  const std::string& card = options.device.device;
  const bool owner_named = options.device.owner != MemoryOptions::Owner::automatic;
  if (options.memory == MemoryType::host && !card.empty()) {
    return fmt::format(
        "--card {}: host memory lies on no card; leave --card out, or give -m gaudi, cuda or rocm",
        card);
  }
  if (owner_named && options.memory.value_or(MemoryType::gaudi) != MemoryType::gaudi) {
    return fmt::format("--owner is about Gaudi cards, and -m {} is not; leave one of them out",
                       to_string(*options.memory));
  }
  if (options.json && options.quiet)
    return "-q has no effect on --json, which prints nothing else; leave one of them out";
  return std::nullopt;
}

}  // namespace hbmwire::tools
