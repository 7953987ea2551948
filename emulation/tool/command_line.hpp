// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace hbmwire::emulation::tool {

/// Describes a mistake of the command line in a sentence: an unknown option with the nearest one
/// that there is, a value with what it may be, a COMMAND that "--" does not precede.
std::string mistake_of(const CLI::App& app, const CLI::ParseError& error);

}  // namespace hbmwire::emulation::tool
