// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/doctor/evidence/evidence.hpp"

namespace hbmwire::tools::doctor {

/// The installed libibverbs. The name of its file has two numbers of rdma-core:
/// libibverbs.so.1.14.44.0 is ABI 1.14 of rdma-core 44.0.
struct Libibverbs {
  std::string path;       ///< path of the link: "/usr/lib/x86_64-linux-gnu/libibverbs.so.1"
  std::string file;       ///< its target: "libibverbs.so.1.14.44.0"
  std::uint64_t abi = 0;  ///< 14
  std::string release;    ///< "44.0"; empty if the file's name does not have it
  int error = 0;          ///< errno if the link could not be read; all but `path` is empty then
};

/// Empty if no folder of libraries has it.
[[nodiscard]] std::optional<Libibverbs> libibverbs_of(Evidence& machine);

}  // namespace hbmwire::tools::doctor
