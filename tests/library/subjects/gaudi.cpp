// SPDX-License-Identifier: MIT
#include "memory_contract.hpp"

namespace hbmwire::test {
namespace {

MemorySubject synapse() {
  return {.name = "a Gaudi card driven by SynapseAI",
          .type = MemoryType::gaudi,
          .options = {.device = {}, .owner = MemoryOptions::Owner::synapse},
          .copy_engine = "SynapseAI DMA",
          .libraries = {"nic", "gaudi"}};
}

MemorySubject hl_thunk() {
  return {.name = "a Gaudi card driven through hl-thunk",
          .type = MemoryType::gaudi,
          .options = {.device = {}, .owner = MemoryOptions::Owner::hl_thunk},
          .copy_engine = "",
          .libraries = {"nic", "gaudi"}};
}

}  // namespace
}  // namespace hbmwire::test

HBMWIRE_MEMORY_SUBJECT(Synapse, synapse());
HBMWIRE_MEMORY_SUBJECT(HlThunk, hl_thunk());
