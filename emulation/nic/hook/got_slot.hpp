// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

namespace hbmwire::emulation::nic {

/// Makes the loaded object that contains the address `inside` call `replacement` instead of its
/// imported function `symbol`, by changing the object's own slot in the global offset table. Other
/// objects are not affected. Returns false if the object has no such slot.
bool replace_import(const void* inside, const char* symbol, void* replacement);

/// Returns an address in each loaded object that exports `symbol`, no matter how the object was
/// loaded (also by dlopen() with RTLD_LOCAL).
std::vector<const void*> find_exporters(const char* symbol);

}  // namespace hbmwire::emulation::nic
