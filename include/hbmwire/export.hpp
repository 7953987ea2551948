// SPDX-License-Identifier: MIT
#pragma once

/// Marks what libhbmwire.so exports; everything else is hidden.
#define HBMWIRE_API __attribute__((visibility("default")))
