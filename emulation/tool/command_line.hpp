// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

namespace hbmwire::emulation::tool {

/// Finds mistakes that CLI11 accepts: an empty value, a value that looks like an option, a flag
/// with a value. Returns a description; empty: none. `words` are those in front of "--".
std::string mistake_in_words(const CLI::App& app, std::span<char* const> words);

/// Describes a mistake of the command line in a sentence: for an unknown option the nearest known
/// one, for a value the allowed ones, for a COMMAND the missing "--".
std::string mistake_of(const CLI::App& app, const CLI::ParseError& error);

}  // namespace hbmwire::emulation::tool
