# hbmwire_add_test(NAME <target> SOURCES <file>... [LIBRARIES <lib>...] [LABELS <label>...]
#                  [EMULATED <option of hbmwire emulate>...] [TIMEOUT <seconds>] [BY_NIC] [ARGUMENTS <argument>...]
#                  [REDUCED <parameter>...] [BY_CASE <suite>...])
#
# Adds one GoogleTest program. Each of its suites is a ctest, <target>.<Suite>, in its own process. With EMULATED it runs on
# emulated hardware (`hbmwire emulate <options> --`). Label "full" keeps it out of the fast suite (scripts/test). TIMEOUT: for
# one suite, in seconds (120).
# BY_NIC: memory of one process is moved by the NIC, or by TCP without one, and not by a device's engine.
# REDUCED: of cases that are repeated for each parameter, those with these parameters are left out of a build with
# HBMWIRE_REDUCED_TESTS (the fast run of sanitizers). The remaining ones cover the differences.
# BY_CASE: each case of these suites runs in its own process on its own hardware. Such a case changes the hardware for good, or
# forks, which must happen before another case has started a thread (ThreadSanitizer forbids threads in a child of a process
# with threads).
include_guard(DIRECTORY)
find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

set(HBMWIRE_BY_NIC "HBMWIRE_PATHS=zero_copy,peer_memory,host,staged,tcp")

function(hbmwire_add_test)
  cmake_parse_arguments(arg "BY_NIC" "NAME;TIMEOUT" "SOURCES;LIBRARIES;LABELS;EMULATED;ARGUMENTS;REDUCED;BY_CASE" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  # The tested code is optimised. The tests themselves are not, which halves their compile time, above all with sanitizers.
  target_compile_options(${arg_NAME} PRIVATE -O0)
  set_target_properties(${arg_NAME} PROPERTIES HBMWIRE_IS_TEST ON UNITY_BUILD_BATCH_SIZE 16)
  target_link_libraries(${arg_NAME} PRIVATE hbmwire_flags ${arg_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${HBMWIRE_BINARY_DIR}/tests)
  set(command $<TARGET_FILE:${arg_NAME}>)
  if(arg_EMULATED)
    list(PREPEND command $<TARGET_FILE:hbmwire_emulate> --quiet ${arg_EMULATED} --)
    add_dependencies(${arg_NAME} hbmwire_emulate)
  endif()
  set(environment)
  if(arg_BY_NIC)
    set(environment ENVIRONMENT ${HBMWIRE_BY_NIC})
  endif()
  set(without)
  if(arg_REDUCED AND HBMWIRE_REDUCED_TESTS)
    list(TRANSFORM arg_REDUCED PREPEND "*/")
    list(JOIN arg_REDUCED ":" without)
    set(without "-${without}")
  endif()

  set(suites)
  foreach(file IN LISTS arg_SOURCES)
    get_filename_component(file ${file} ABSOLUTE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} cases REGEX "^TEST(_F|_P)?\\(")
    list(TRANSFORM cases REPLACE "^TEST[_FP]*\\(([A-Za-z0-9]+),.*" "\\1")
    list(APPEND suites ${cases})
  endforeach()
  list(REMOVE_DUPLICATES suites)
  foreach(suite IN LISTS arg_BY_CASE)
    if(NOT suite IN_LIST suites)
      message(FATAL_ERROR "${arg_NAME}: BY_CASE names ${suite}, and no source has such a suite")
    endif()
  endforeach()
  foreach(suite IN LISTS suites)
    set(filter "${suite}.*:*/${suite}.*${without}")
    if(suite IN_LIST arg_BY_CASE)
      add_test(NAME ${arg_NAME}.${suite} COMMAND ${Python3_EXECUTABLE} -B ${HBMWIRE_SOURCE_DIR}/tests/support/each_case.py
        ${filter} ${command} ${arg_ARGUMENTS})
    else()
      add_test(NAME ${arg_NAME}.${suite} COMMAND ${command} --gtest_filter=${filter} ${arg_ARGUMENTS})
    endif()
    set_tests_properties(${arg_NAME}.${suite} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ${environment})
  endforeach()
endfunction()

# hbmwire_add_test_part(<target> <file>...): code that several test programs share, compiled once. It may use GoogleTest.
# Targets that link it find the headers of the whole tree.
function(hbmwire_add_test_part name)
  add_library(${name} STATIC ${ARGN})
  target_compile_options(${name} PRIVATE -O0)
  target_include_directories(${name} PUBLIC ${HBMWIRE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE hbmwire_flags PUBLIC GTest::gtest)
endfunction()
