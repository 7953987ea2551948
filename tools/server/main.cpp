// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cerrno>

#include "tools/common/command_line.hpp"
#include "tools/common/finish.hpp"
#include "tools/server/server.hpp"
#include <CLI/CLI.hpp>

namespace hbmwire::tools {
namespace {

Outcome<void> check_save(const std::string& directory) {
  if (directory.empty() || ::access(directory.c_str(), W_OK | X_OK) == 0) return {};
  return fail_file("saving to", directory, errno);
}

Outcome<int> serve(Server& server, const ServerOptions& options) {
  HBMWIRE_TRY(check_save(options.save));
  return server.run();
}

}  // namespace

int run_server(int argc, char** argv) {
  const std::string program = argv[0];
  ServerOptions options;
  CLI::App app(
      "Waits for a client, exchanges data with it by RDMA between device memories, and verifies "
      "every byte.",
      program);
  add_common_options(app, options.common);
  app.add_option("--bind", options.bind,
                 "Address to listen on, its port behind it if wanted; all if not given")
      ->option_text("ADDRESS");
  app.add_option("--save", options.save, "Take files from clients, and save them in DIR")
      ->check(CLI::ExistingDirectory)
      ->option_text("DIR");
  app.add_flag("--keep", options.keep,
               "Serve clients until a signal; without it, until the first that completes");
  app.footer("\nExample\n  node2$ hbmwire server\n  node1$ hbmwire client node2\n");
  if (const auto code = parse_command_line(app, program, argc, argv)) return *code;
  Output output(program, options.common.output_mode());
  if (const auto mistake = contradiction_in(options.common)) return usage_error(output, *mistake);
  if (!options.bind.empty()) {
    const auto place = place_of(options.bind, options.common.port, *app.get_option("--port"));
    if (!place) return usage_error(output, place.error().text);
    options.bind = place->host;
    options.common.port = place->port;
  }
  auto interrupt = Interrupt::create();
  if (!interrupt) return finish(output, interrupt.error(), Json::object());
  if (const auto good = output.check(); !good) return finish(output, good.error(), Json::object());
  print_headline(output, "RDMA DMA-buf Server");
  Server server(options, output, *interrupt);
  const auto code = serve(server, options);
  if (!code) return finish(output, code.error(), server.summary());
  output.line("Server shutdown complete");
  return finish(output, *code, server.summary());
}

}  // namespace hbmwire::tools
