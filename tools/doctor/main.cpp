// SPDX-License-Identifier: MIT
#include <string>
#include <string_view>

#include "tools/common/command_line.hpp"
#include "tools/doctor/explain.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools {
namespace {

constexpr const char* kDoctorDescription =
    "Says what hinders zero-copy RDMA on this machine, and explains errors.\n\n"
    "commands:\n"
    "  explain  tell more about an error, by the name at the end of its sentence";

}  // namespace

int run_doctor(int argc, char** argv) {
  std::string program = argv[0];
  if (argc > 1 && std::string_view(argv[1]) == "explain") {
    program += " explain";
    argv[1] = program.data();
    return run_explain(argc - 1, argv + 1);
  }
  bool json = false;
  CLI::App app(kDoctorDescription, program);
  app.footer("\n`hbmwire doctor explain --help` tells more.");
  app.add_flag("--json", json, "One JSON object instead of text");
  if (const auto code = parse_command_line(app, program, argc, argv)) return *code;
  Output output(program, json ? Output::Mode::json : Output::Mode::text);
  return usage_error(output, "the command is missing");
}

}  // namespace hbmwire::tools
