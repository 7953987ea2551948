// SPDX-License-Identifier: MIT
// libexec/hbmwire/emulate, which `hbmwire emulate` starts.
#include "emulation/tool/emulate.hpp"

int main(int argc, char** argv) { return hbmwire::emulation::tool::run_emulate(argc, argv); }
