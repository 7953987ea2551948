// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

#include "hbmwire/host_port.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/memory_choice.hpp"
#include "tools/common/output.hpp"
#include <CLI/CLI.hpp>

/// Parses the command lines of all subcommands, and reports their mistakes.
namespace hbmwire::tools {

/// Checks that an option's value is a TCP port.
CLI::Validator is_port();

/// The help's text for an option with named values, and its default: "a|b|c [b]". The shell
/// completion (tools/completion) reads the names from the help. They come from the table that
/// checks the value, so that both agree.
template <class Names>
std::string alternatives(const Names& names, const std::string& usual) {
  return fmt::format("{} [{}]", fmt::join(names, "|"), usual);
}

/// "gaudi|cuda|rocm|host": the types of memory that --memory takes.
std::string memory_types();

/// --memory of tools that try all memories if it is not given.
void add_memory_option(CLI::App& app, std::vector<MemoryChoice>& memories);

/// Parses the command line. Returns nothing if the tool should run, and the exit code after showing
/// help or reporting a mistake. With --json on the command line, the mistake is also an object.
std::optional<int> parse_command_line(CLI::App& app, const std::string& program, int argc,
                                      char** argv);

/// Reports a mistake found after parsing, and returns the exit code.
int usage_error(Output& output, const std::string& mistake);

/// Parses HOST or the value of --bind: "host", "host:port", "[::1]:7000", "tcp://host:port". `port`
/// is the option for the port, and applies if `text` has none. If both name a port, they must
/// agree.
Outcome<HostPort> place_of(const std::string& text, std::uint16_t port,
                           const CLI::Option& port_option);

}  // namespace hbmwire::tools
