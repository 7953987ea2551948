# Generates the C++ source of troubleshooting_manual() (manual.hpp) from a manual in Markdown.
# usage: cmake -DMANUAL=docs/troubleshooting.md -DSOURCE=manual.cpp -P embed_manual.cmake
#
# Each heading begins an element of an array. The text below it becomes a raw string, so that it
# needs no escapes.
# Plain CMake, so that a build needs no other program.
file(READ "${MANUAL}" text)
string(FIND "${text}" ")hbmwire\"" end_of_raw_string)
if(text STREQUAL "" OR NOT end_of_raw_string EQUAL -1)
  message(FATAL_ERROR "${MANUAL} is empty, or contains )hbmwire\", which would end a raw string of C++: reword it")
endif()
string(REGEX REPLACE "\n(##+) ([^\n]*)" ")hbmwire\"},\n    {\"\\1\", R\"hbmwire(\\2)hbmwire\", R\"hbmwire(" text "${text}")
get_filename_component(name "${MANUAL}" NAME)
file(WRITE "${SOURCE}" "// SPDX-License-Identifier: MIT
// Made of ${name} by embed_manual.cmake.
#include \"tools/doctor/explain/manual.hpp\"

namespace hbmwire::tools::doctor {
namespace {

constexpr ManualPart kManualParts[] = {
    {\"\", \"\", R\"hbmwire(${text})hbmwire\"},
};

}  // namespace

std::span<const ManualPart> troubleshooting_manual() noexcept { return kManualParts; }

}  // namespace hbmwire::tools::doctor
")
