# Settings that the product and the emulation share: how sources are compiled, and the folders of outputs. They do not affect a
# parent project.
include_guard(DIRECTORY)
include(GNUInstallDirs)

option(HBMWIRE_WERROR "Treat warnings as errors" OFF)
option(HBMWIRE_UNITY "Compile several sources at once: several times faster from nothing" ON)
set(HBMWIRE_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them: address,undefined or thread")
set_property(CACHE HBMWIRE_SANITIZE PROPERTY STRINGS "" "address,undefined" "thread")
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# A build folder may be moved: into a kernel guest, or where another user can read it.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_UNITY_BUILD ${HBMWIRE_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 40)

# The root of the tree and of the build folder: the same for the product and for the emulation.
get_filename_component(HBMWIRE_SOURCE_DIR ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
if(NOT HBMWIRE_BINARY_DIR)
  set(HBMWIRE_BINARY_DIR ${PROJECT_BINARY_DIR})
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${HBMWIRE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${HBMWIRE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${HBMWIRE_BINARY_DIR}/lib)
# Programs that other programs start: `hbmwire emulate` starts libexec/hbmwire/emulate.
set(HBMWIRE_LIBEXEC_OUTPUT ${HBMWIRE_BINARY_DIR}/libexec/hbmwire)

if(HBMWIRE_SANITIZE)
  add_compile_options(-fsanitize=${HBMWIRE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HBMWIRE_SANITIZE})
  if(HBMWIRE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
  # UndefinedBehaviorSanitizer describes each checked place by pointers. A position-independent program must relocate some
  # hundred thousand of them at each start, which takes 0.1 s or more; each test starts a few programs.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND HBMWIRE_SANITIZE MATCHES "undefined")
    add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
endif()

# For code that moves no bytes: optimising it would only cost compile time. Optimising instrumented code takes twice as long as
# parsing it.
function(hbmwire_optimise_little target)
  if(HBMWIRE_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo,Release>:-O1>)
  endif()
endfunction()

# Every target of the project links hbmwire_flags privately.
if(NOT TARGET hbmwire_flags)
  add_library(hbmwire_flags INTERFACE)
  target_compile_features(hbmwire_flags INTERFACE cxx_std_20)
  target_compile_options(hbmwire_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor
    -Woverloaded-virtual $<$<BOOL:${HBMWIRE_WERROR}>:-Werror>)
  # With several sources in one file, GCC mistakes each type of an anonymous namespace for one of a header.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND HBMWIRE_UNITY)
    target_compile_options(hbmwire_flags INTERFACE -Wno-subobject-linkage)
  endif()
  # A local name of one test may equal a name in another file. With one file at a time (preset dev) this is checked.
  target_compile_options(hbmwire_flags INTERFACE
    $<$<NOT:$<AND:$<BOOL:${HBMWIRE_UNITY}>,$<BOOL:$<TARGET_PROPERTY:HBMWIRE_IS_TEST>>>>:-Wshadow>)
  # Instrumented code hides initialisations from GCC, whose sanitizers are known to cause false warnings.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND HBMWIRE_SANITIZE)
    target_compile_options(hbmwire_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
