// SPDX-License-Identifier: MIT

/// What librdmacm and libibverbs lose by themselves is not looked for: group memberships that an id
/// still has when it goes, events whose call failed, devices that stay open to the end.
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions();

extern "C" const char* __lsan_default_suppressions() {
  return "leak:librdmacm.so\nleak:libibverbs.so\n";
}
