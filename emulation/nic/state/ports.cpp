// SPDX-License-Identifier: MIT
#include "emulation/nic/state/ports.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "emulation/nic/state/links.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

std::uint32_t claim_context(Process& process, std::span<const std::uint32_t> ports,
                            std::uint64_t channel) {
  SharedState& shared = process.shared();
  const std::lock_guard guard(shared.header.allocation);
  for (std::uint32_t index = 1; index < kMaxContexts; ++index) {
    ContextRecord& context = shared.contexts[index];
    if (context.claimed.load() != 0) continue;
    if (context.lock_made == 0) {
      context.mutex.initialise();
      context.lock_made = 1;
    }
    const std::lock_guard record(context.mutex);
    context.owner = process.slot();
    context.channel = channel;
    for (std::uint32_t i = 0; i < kMaxNicPorts; ++i) {
      context.ports[i] = i < ports.size() ? ports[i] : 0;
      context.told[i] = shared.ports[context.ports[i]].link_changes.load();
    }
    context.claimed.store(1);
    shared.header.next_context = std::max(shared.header.next_context, index + 1);
    return index;
  }
  errno = ENOMEM;
  return 0;
}

void release_context(Process& process, std::uint32_t index) {
  ContextRecord& context = process.shared().contexts[index];
  const std::lock_guard guard(context.mutex);
  context.claimed.store(0);
}

void retry_link_events(Process& process, std::uint32_t index) {
  ContextRecord& context = process.shared().contexts[index];
  const std::lock_guard guard(context.mutex);
  tell_of_links(process.shared(), process.fifos(), context);
}

}  // namespace hbmwire::emulation::nic
