// SPDX-License-Identifier: MIT
/// Stands for a vendor's library of the machine (keep_test.cpp), with that library's name.
extern "C" __attribute__((visibility("default"))) int stand_in_of_the_test() { return 1; }
