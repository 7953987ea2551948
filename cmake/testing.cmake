# hbmwire_add_test(NAME <target> SOURCES <file>... [LIBRARIES <lib>...] [LABELS <label>...]
#                  [EMULATED <option of hbmwire emulate>...] [TIMEOUT <seconds>] [BY_NIC] [ARGUMENTS <argument>...]
#                  [REDUCED <parameter>...] [BY_CASE <suite>...])
#
# One GoogleTest program; each of its suites is a ctest of its own, <target>.<Suite>, and a process of its own. With
# EMULATED it runs on emulated hardware (`hbmwire emulate <options> --`). Label "full" keeps it out of the fast suite
# (scripts/test). TIMEOUT: of a suite, in seconds (120).
# BY_NIC: memory of one process goes by the NIC, or by TCP without one, and not by a device's engine.
# REDUCED: of the cases that are repeated for each parameter, those of these parameters are left out of a build with
# HBMWIRE_REDUCED_TESTS (the fast run of sanitizers); what differs there is tried by the ones that stay.
# BY_CASE: each case of these suites is a process of its own, on hardware of its own: it changes the hardware for good, or
# forks, before another case has started a thread (ThreadSanitizer lets a child start none if its parent had any).
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
  # The tested code is optimised; the tests themselves compile in less than half the time, under the sanitizers most of all.
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

# hbmwire_add_test_part(<target> <file>...): what several test programs share, compiled once. It may use GoogleTest, and
# who links it finds the headers of the whole tree.
function(hbmwire_add_test_part name)
  add_library(${name} STATIC ${ARGN})
  target_compile_options(${name} PRIVATE -O0)
  target_include_directories(${name} PUBLIC ${HBMWIRE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE hbmwire_flags PUBLIC GTest::gtest)
endfunction()
