// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

// Names of the numbers that other layers report. They are here because describe() must not depend
// on those layers.
namespace hbmwire {

/// enum ibv_wc_status (ibv_poll_cq(3)) in words.
[[nodiscard]] std::string_view wc_status_name(int status) noexcept;

/// synStatus (SynapseAI's synapse_api_types.h) in words.
[[nodiscard]] std::string_view syn_status_name(int status) noexcept;

/// CUresult of the CUDA driver API (cuda.h).
[[nodiscard]] std::string_view cuda_result_name(int result) noexcept;

/// hsa_status_t (hsa.h, hsa_ext_amd.h).
[[nodiscard]] std::string_view hsa_status_name(int status) noexcept;

/// hipError_t (hip_runtime_api.h).
[[nodiscard]] std::string_view hip_error_name(int error) noexcept;

}  // namespace hbmwire
