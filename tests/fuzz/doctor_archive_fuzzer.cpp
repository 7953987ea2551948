// SPDX-License-Identifier: MIT
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tools/doctor/evidence/archive.hpp"
#include "tools/doctor/evidence/pci_config.hpp"
#include "tools/doctor/evidence/scrub.hpp"

namespace {

using namespace hbmwire::tools::doctor;

// Any bytes may be a configuration space. Each search ends, and its result lies within the bytes.
void look_for_capabilities(const PciConfig& config) {
  for (std::uint8_t id = 0; id < 0x20; ++id) {
    const auto standard = config.find_capability(id);
    const auto extended = config.find_extended(id);
    if (standard.is_found() && config.u8(standard.offset) != id) std::abort();
    if (extended.is_found() && config.u16(extended.offset) != id) std::abort();
  }
}

// Asks for all that an archive can answer.
void ask(Archive machine) {
  for (const auto& [path, answer] : machine.record().files) {
    if (machine.file(path) != answer) std::abort();
    machine.folder(path.substr(0, path.rfind('/')));
    look_for_capabilities(PciConfig(answer.value));
  }
  machine.folder("/");
}

}  // namespace

/// Input: an archive of a machine, or a dump of rdma_topo. An archive that was read can be queried
/// and scrubbed, and is the same after writing and reading it again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto record = record_of(text, "fuzz");
  if (!record) return 0;
  const auto again = record_of(archive_text(*record), "fuzz");
  if (!again || *again != *record) std::abort();
  ask(Archive(scrubbed(*record, {.hosts = {"node7"}, .users = {"alice"}})));
  ask(Archive(*record));
  return 0;
}
