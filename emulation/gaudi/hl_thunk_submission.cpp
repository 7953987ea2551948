// SPDX-License-Identifier: MIT
//
// hl-thunk: raw command submission. It needs the packet formats and queues of each generation, and
// real programs reach the DMA engines through SynapseAI instead: the functions are there, so that
// programs load, and refuse.
#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/hl_thunk_calls.hpp"

using namespace hbmwire::emulation::gaudi;

namespace {

int not_modelled(int fd, const char* call) {
  Card* card = nullptr;
  int error = injected(call);
  if (error == 0) error = card_for_memory(fd, card);
  return error != 0 ? error : -EOPNOTSUPP;
}

}  // namespace

int hlthunk_request_command_buffer(int fd, uint32_t, uint64_t*) {
  return not_modelled(fd, "hlthunk_request_command_buffer");
}

int hlthunk_request_mapped_command_buffer(int fd, uint32_t, uint64_t*) {
  return not_modelled(fd, "hlthunk_request_mapped_command_buffer");
}

int hlthunk_destroy_command_buffer(int fd, uint64_t) {
  return not_modelled(fd, "hlthunk_destroy_command_buffer");
}

int hlthunk_get_mapped_cb_device_va_by_handle(int fd, uint64_t, uint64_t*) {
  return not_modelled(fd, "hlthunk_get_mapped_cb_device_va_by_handle");
}

int hlthunk_command_submission(int fd, struct hlthunk_cs_in*, struct hlthunk_cs_out*) {
  return not_modelled(fd, "hlthunk_command_submission");
}

int hlthunk_command_submission_timeout(int fd, struct hlthunk_cs_in*, struct hlthunk_cs_out*,
                                       uint32_t) {
  return not_modelled(fd, "hlthunk_command_submission_timeout");
}

int hlthunk_wait_for_cs(int fd, uint64_t, uint64_t, uint32_t*) {
  return not_modelled(fd, "hlthunk_wait_for_cs");
}

// Writes that a NIC has completed are in the backing file already. Those that --like-hardware=flush
// holds back stay under way: nothing proves that the driver's call covers what other devices wrote
// (docs/adr/0005-flush-before-reading.md).
int hlthunk_cs_flush_pci_hbw_writes(int fd) {
  Card* card = nullptr;
  const int error = injected("hlthunk_cs_flush_pci_hbw_writes");
  return error != 0 ? error : card_for_memory(fd, card);
}
