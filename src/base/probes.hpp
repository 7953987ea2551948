// SPDX-License-Identifier: MIT
#pragma once

// Probes at which tools of the system look (bpftrace, perf, gdb: docs/tracing.md). Each is one nop
// and a note in the library's file, which says where its arguments lie: these must be there anyway,
// so that a probe costs nothing but them. HBMWIRE_PROBES: the build has <sys/sdt.h>.
//
// NOLINTBEGIN(cppcoreguidelines-macro-usage): the place of a probe is where its macro stands.
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
// Its arguments are looked at by the compiler alone.
#define HBMWIRE_NO_PROBE(arguments) \
  static_cast<void>(sizeof(::hbmwire::detail::looked_at arguments))
#endif
// NOLINTEND(cppcoreguidelines-macro-usage)

namespace hbmwire {

/// The causes of the probe `fallback`: a slower way was taken.
enum class Fallback : int {
  registration,  ///< memory: not by its best path
  staging,       ///< memory: by pieces of host memory, or an engine, since no NIC reaches it
  tcp,           ///< a worker: without a NIC
  ipc,           ///< a transfer: not by the peer's engine
  rail,          ///< an endpoint: without one of its NICs
};

#ifndef HBMWIRE_PROBES
namespace detail {
template <class... Arguments>
int looked_at(const Arguments&...) noexcept;
}  // namespace detail
#endif

}  // namespace hbmwire
