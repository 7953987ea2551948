// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

// Names for numbers that other layers meet, kept here because describe() must not depend on those
// layers.
namespace hbmwire {

/// enum ibv_wc_status (ibv_poll_cq(3)) in words.
[[nodiscard]] std::string_view wc_status_name(int status) noexcept;

/// synStatus (SynapseAI's synapse_api_types.h) in words.
[[nodiscard]] std::string_view syn_status_name(int status) noexcept;

}  // namespace hbmwire
