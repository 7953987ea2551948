// SPDX-License-Identifier: MIT
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "tools/trace/reader.hpp"
#include "tools/trace/summary.hpp"
#include "tools/trace/text.hpp"

/// Input: a trace, or any other file for `hbmwire trace`. Reading must end, and each transfer that
/// was read can be summed up and shown.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hbmwire::tools;
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  trace::Summary summary({.endpoint = {}, .peer = {}, .from_ns = 0, .to_ns = {}}, 3);
  std::uint64_t transfers = 0;
  const auto facts = trace::read_trace(in, "fuzz", [&](const trace::TracedTransfer& transfer) {
    if (transfer.asked_ns < 0 || transfer.took_ns < 0 || transfer.posted_ns > transfer.took_ns)
      std::abort();
    ++transfers;
    summary.add(transfer);
  });
  if (!facts) return 0;
  if (facts->transfers != transfers || summary.transfers() != transfers) std::abort();
  Output output("fuzz", Output::Mode::quiet);
  trace::print_report(output, *facts, summary, 80);
  const std::string text =
      trace::report_json(*facts, summary).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.empty()) std::abort();
  return 0;
}
