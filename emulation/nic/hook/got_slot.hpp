// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

namespace hbmwire::emulation::nic {

/// Makes the loaded object that contains `inside` call `replacement` for its imported function
/// `symbol`, by its own slot of the global offset table. Other objects are not touched. False when
/// it has no such slot.
bool replace_import(const void* inside, const char* symbol, void* replacement);

/// An address in each loaded object that defines `symbol` for others, by whatever name and however
/// it was loaded: also by dlopen() with RTLD_LOCAL.
std::vector<const void*> find_exporters(const char* symbol);

}  // namespace hbmwire::emulation::nic
