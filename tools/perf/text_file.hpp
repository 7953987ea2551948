// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>

#include "tools/common/failure.hpp"

namespace hbmwire::tools::perf {

/// All of a file, of `most_bytes` at most. A FIFO or a device is refused rather than waited for.
Outcome<std::string> read_text_file(const std::string& path, std::uint64_t most_bytes);

/// Makes the file, or writes over it. Whatever can be written to will do, /dev/stdout too.
Outcome<void> write_text_file(const std::string& path, const std::string& text);

}  // namespace hbmwire::tools::perf
