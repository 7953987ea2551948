// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/ranges.h>

#include <optional>
#include <string>

#include "hbmwire/host_port.hpp"

#include "tools/common/failure.hpp"
#include "tools/common/output.hpp"
#include <CLI/CLI.hpp>

/// The command lines of all subcommands: how their mistakes are named.
namespace hbmwire::tools {

/// For options that are a TCP port.
CLI::Validator is_port();

/// How the help shows which names an option takes, and what it is if not given: "a|b|c [b]". The
/// completion of the shells (tools/completion) reads them there, so they come from what is checked.
template <class Names>
std::string alternatives(const Names& names, const std::string& usual) {
  return fmt::format("{} [{}]", fmt::join(names, "|"), usual);
}

/// Parses; nothing when the tool should run, else the code to exit with: help was shown, or the
/// mistake named, with --json on the line in an object, too.
std::optional<int> parse_command_line(CLI::App& app, const std::string& program, int argc,
                                      char** argv);

/// Names a mistake that showed after the parsing, and returns the code to exit with.
int usage_error(Output& output, const std::string& mistake);

/// HOST or --bind as people write it: "host", "host:port", "[::1]:7000", "tcp://host:port". `port`
/// is the port's option, and what it says goes where `text` has none; if both say one, they must
/// agree.
Outcome<HostPort> place_of(const std::string& text, std::uint16_t port,
                           const CLI::Option& port_option);

}  // namespace hbmwire::tools
