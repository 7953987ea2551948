// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/error.hpp"

namespace hbmwire::detail {

/// The names of a node list as Slurm writes it ("node[03-07,9],x1", "r[1-2]n[01-16]"), in its order
/// and with the zeros of its numbers; no more than the first `most`. `variable`: where it stands,
/// for the error. Errors: Errc::invalid_argument, Stage::configure: it is no node list.
/// Source: hostlist expressions, scontrol(1) "show hostnames".
Result<std::vector<std::string>> slurm_nodes(std::string_view list, std::size_t most,
                                             std::string_view variable);

}  // namespace hbmwire::detail
