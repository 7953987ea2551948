// SPDX-License-Identifier: MIT
#include "tools/doctor/checks/finding.hpp"

namespace hbmwire::tools::doctor {

std::string_view to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::good:
      return "good";
    case Verdict::slow:
      return "slow";
    case Verdict::bad:
      return "bad";
    case Verdict::unknown:
      break;
  }
  return "unknown";
}

}  // namespace hbmwire::tools::doctor
