// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

namespace hbmwire::emulation::tool {

/// A mistake that CLI11 lets pass: a value that is empty or looks like an option, a flag with a
/// value. Empty: none. `words`: those in front of "--".
std::string mistake_in_words(const CLI::App& app, std::span<char* const> words);

/// Describes a mistake of the command line in a sentence: an unknown option with the nearest one
/// that there is, a value with what it may be, a COMMAND that "--" does not precede.
std::string mistake_of(const CLI::App& app, const CLI::ParseError& error);

}  // namespace hbmwire::emulation::tool
