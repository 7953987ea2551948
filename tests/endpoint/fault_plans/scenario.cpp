// SPDX-License-Identifier: MIT
#include "scenario.hpp"

#include <cstdlib>

namespace hbmwire::test {

bool has_rails() {
  const char* const nics = std::getenv("HBMWIRE_NICS");
  return nics != nullptr && std::string_view(nics).find(',') != std::string_view::npos;
}

bool shares_memory() {
  const char* const paths = std::getenv("HBMWIRE_PATHS");
  return paths != nullptr &&
         std::string_view(paths).find("shared_memory") != std::string_view::npos;
}

Scenario::Scenario(std::uint64_t seed) : random(seed) {
  for (int i = 0; i < 8; ++i) random();  // neighbouring seeds begin with similar numbers
  fault = static_cast<Fault>(below(kFaultNames.size()));
  operations = 1 + static_cast<unsigned>(below(60));
  at = static_cast<unsigned>(below(operations));
  if (has_rails() && below(2) == 0) nic = "emu1";
  if (shares_memory()) {
    is_shared_here = below(2) == 0;
    is_shared_there = below(2) == 0;
  }
  peer_timeout_ms = 100 + static_cast<unsigned>(below(300));
  constexpr std::array<std::string_view, 3> kOps{"write", "read", "send"};
  const std::string which(kOps.at(below(kOps.size())));
  // The first messages request the target, and are not to fail.
  const std::string nth = std::to_string((which == "send" ? 3 : 1) + below(operations));
  if (fault == Fault::revoke_region) rules = "revoke,op=" + which + ",nth=" + nth;
  if (fault == Fault::drop_message) rules = "drop,op=" + which + ",nth=" + nth + ",count=20";
  if (fault == Fault::late_message || fault == Fault::delayed_message) {
    late_ms = 20 + static_cast<unsigned>(below(600));
    rules = std::string(fault == Fault::late_message ? "late" : "delay") + ",op=" + which +
            ",nth=" + nth + ",ms=" + std::to_string(late_ms);
  }
  if (fault == Fault::failing_poll)
    rules = "fail,call=ibv_poll_cq,nth=" + std::to_string(50 + below(400)) + ",errno=5";
  if (fault == Fault::failing_call) {
    constexpr std::array<std::string_view, 8> kCalls{
        "ibv_create_qp", "ibv_modify_qp", "ibv_reg_mr",        "ibv_create_cq",
        "ibv_post_send", "ibv_post_recv", "ibv_req_notify_cq", "ibv_query_qp"};
    rules = "fail,call=" + std::string(kCalls.at(below(kCalls.size()))) +
            ",nth=" + std::to_string(1 + below(12)) + ",errno=12";
  }
}

}  // namespace hbmwire::test
