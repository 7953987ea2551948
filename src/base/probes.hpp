// SPDX-License-Identifier: MIT
#pragma once

// Probes for tools of the system (bpftrace, perf, gdb: docs/tracing.md). Each is one nop, and a
// note in the library's file that says where its arguments lie. Callers pass only values that they
// have anyway, so a probe costs nothing else. HBMWIRE_PROBES is defined if the build has
// <sys/sdt.h>.
//
// NOLINTBEGIN(cppcoreguidelines-macro-usage): the place of a probe is the place of its macro.
#ifdef HBMWIRE_PROBES
#include <sys/sdt.h>

#define HBMWIRE_PROBE2(name, a, b) STAP_PROBE2(hbmwire, name, a, b)
#define HBMWIRE_PROBE3(name, a, b, c) STAP_PROBE3(hbmwire, name, a, b, c)
#define HBMWIRE_PROBE4(name, a, b, c, d) STAP_PROBE4(hbmwire, name, a, b, c, d)
#define HBMWIRE_PROBE5(name, a, b, c, d, e) STAP_PROBE5(hbmwire, name, a, b, c, d, e)
#define HBMWIRE_PROBE6(name, a, b, c, d, e, f) STAP_PROBE6(hbmwire, name, a, b, c, d, e, f)
#else
#define HBMWIRE_PROBE2(name, a, b) HBMWIRE_NO_PROBE((a, b))
#define HBMWIRE_PROBE3(name, a, b, c) HBMWIRE_NO_PROBE((a, b, c))
#define HBMWIRE_PROBE4(name, a, b, c, d) HBMWIRE_NO_PROBE((a, b, c, d))
#define HBMWIRE_PROBE5(name, a, b, c, d, e) HBMWIRE_NO_PROBE((a, b, c, d, e))
#define HBMWIRE_PROBE6(name, a, b, c, d, e, f) HBMWIRE_NO_PROBE((a, b, c, d, e, f))
// Only the compiler looks at the arguments; they are not evaluated.
#define HBMWIRE_NO_PROBE(arguments) \
  static_cast<void>(sizeof(::hbmwire::detail::looked_at arguments))
#endif
// NOLINTEND(cppcoreguidelines-macro-usage)

namespace hbmwire {

/// The causes of the probe `fallback`, which fires when a slower path is taken.
enum class Fallback : int {
  registration,  ///< memory: not by its best path
  staging,       ///< memory: by pieces of host memory or an engine; no NIC reaches it
  tcp,           ///< a worker: has no NIC
  ipc,           ///< a transfer: not by the peer's engine
  rail,          ///< an endpoint: lacks one of its NICs
};

#ifndef HBMWIRE_PROBES
namespace detail {
template <class... Arguments>
int looked_at(const Arguments&...) noexcept;
}  // namespace detail
#endif

}  // namespace hbmwire
