# Every target of the project links hbmwire_flags privately.
add_library(hbmwire_flags INTERFACE)
target_compile_features(hbmwire_flags INTERFACE cxx_std_20)
target_compile_options(hbmwire_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual $<$<BOOL:${HBMWIRE_WERROR}>:-Werror>)
# Instrumented code hides from GCC what was initialised: false warnings are the known price of its sanitizers.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND HBMWIRE_SANITIZERS)
  target_compile_options(hbmwire_flags INTERFACE -Wno-maybe-uninitialized)
endif()
