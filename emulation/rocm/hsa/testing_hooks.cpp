// SPDX-License-Identifier: MIT
#include "emulation/rocm/testing_hooks.hpp"

#include <string_view>

#include "emulation/common/faults.hpp"
#include "emulation/rocm/hsa/session.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::rocm;

long hbmwire_rocm_fail_nth_call(long n, int error_number) {
  return static_cast<long>(FaultPlan::of_this_process().fail_nth_call(n, error_number));
}

int hbmwire_rocm_fault(const char* call) { return FaultPlan::of_this_process().fails(call); }

unsigned long hbmwire_rocm_live_objects(unsigned gpu, const char* kind) {
  const std::string_view wanted(kind == nullptr ? "" : kind);
  if (gpu >= devices().size()) return 0;
  GpuMemory* const memory = devices()[gpu]->memory();
  if (wanted == "range") return memory == nullptr ? 0 : memory->own_ranges();
  if (wanted == "export") return memory == nullptr ? 0 : memory->own_exports();
  if (wanted == "share") return memory == nullptr ? 0 : memory->own_shares();
  if (wanted == "ipc") return memory == nullptr ? 0 : memory->own_attachments();
  const auto session = Runtime::instance().session();
  if (!session) return 0;
  if (wanted == "allocation") return session->allocations().count(gpu);
  if (wanted == "host_allocation") return session->allocations().count(kHost);
  if (wanted == "lock") return session->allocations().count_locks();
  if (wanted == "signal") return session->signals().all().size();
  return 0;
}
