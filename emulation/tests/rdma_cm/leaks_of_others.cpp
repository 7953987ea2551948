// SPDX-License-Identifier: MIT

/// What librdmacm loses by itself is not looked for: group memberships that an id still has when it
/// goes, events whose call failed.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions();

extern "C" const char* __lsan_default_suppressions() { return "leak:librdmacm.so\n"; }
