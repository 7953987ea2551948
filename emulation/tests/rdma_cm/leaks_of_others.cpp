// SPDX-License-Identifier: MIT

/// Suppresses leaks of librdmacm itself: group memberships that an id has at its end, and events
/// whose call failed.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions();

extern "C" const char* __lsan_default_suppressions() { return "leak:librdmacm.so\n"; }
