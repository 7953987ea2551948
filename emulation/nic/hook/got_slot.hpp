// SPDX-License-Identifier: MIT
#pragma once

namespace hbmwire::emulation::nic {

/// Makes the loaded object that contains `inside` call `replacement` for its imported function
/// `symbol`, by its own slot of the global offset table. Other objects are not touched. False when
/// it has no such slot.
bool replace_import(const void* inside, const char* symbol, void* replacement);

}  // namespace hbmwire::emulation::nic
