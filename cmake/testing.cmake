# hbmwire_add_test(NAME <target> SOURCES <file>... [LIBRARIES <lib>...] [LABELS <label>...]
#                  [EMULATED <option of hbmwire emulate>...] [TIMEOUT <seconds>] [BY_NIC] [BY_SUITE <argument>...]
#                  [REDUCED <parameter>...])
#
# One GoogleTest program, each of its cases a ctest of its own, named <target>.<Suite>.<Case>. With EMULATED every
# case runs under `hbmwire emulate <options> --` (tests/emulator). Label "full" keeps a program out of the fast suite
# (scripts/test).
# BY_NIC: memory of one process goes by the NIC, or by TCP without one, and not by a device's engine.
# REDUCED: of the cases that are repeated for each parameter, those of these parameters are left out of a build with
# HBMWIRE_REDUCED_TESTS (scripts/test: the fast run of sanitizers); what differs there is tried by the ones that stay.
# BY_SUITE, for many short cases: a ctest for each suite, <target>.<Suite>, with the arguments that follow.
include(GoogleTest)
find_package(GTest REQUIRED)

set(HBMWIRE_BY_NIC "HBMWIRE_PATHS=zero_copy,peer_memory,host,staged,tcp")

function(hbmwire_add_test)
  cmake_parse_arguments(arg "BY_NIC" "NAME;TIMEOUT" "SOURCES;LIBRARIES;LABELS;EMULATED;BY_SUITE;REDUCED" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  # What is tested is optimised; the tests themselves compile in less than half the time, under the sanitizers most of all.
  target_compile_options(${arg_NAME} PRIVATE -O0)
  target_link_libraries(${arg_NAME} PRIVATE hbmwire_flags ${arg_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set(emulation)
  if(arg_EMULATED)
    set(emulation $<TARGET_FILE:emulator> emulate --quiet ${arg_EMULATED} --)
    add_dependencies(${arg_NAME} emulator)
  endif()
  if(arg_BY_SUITE)
    hbmwire_add_suites()
    return()
  endif()
  set_target_properties(${arg_NAME} PROPERTIES CROSSCOMPILING_EMULATOR "${emulation}")
  set(environment)
  if(arg_BY_NIC)
    set(environment ENVIRONMENT ${HBMWIRE_BY_NIC})
  endif()
  set(filter)
  if(arg_REDUCED AND HBMWIRE_REDUCED_TESTS)
    list(TRANSFORM arg_REDUCED PREPEND "*/")
    list(JOIN arg_REDUCED ":" filter)
    set(filter TEST_FILTER "-${filter}")
  endif()
  # Without the values of parameters: of a structure they are its bytes, addresses among them, other ones in each build.
  gtest_discover_tests(${arg_NAME} TEST_PREFIX "${arg_NAME}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    NO_PRETTY_VALUES ${filter}
    PROPERTIES TIMEOUT ${arg_TIMEOUT} ${environment})
  # Not among the PROPERTIES above: gtest_discover_tests loses all labels but the first, and what follows them.
  set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_labels.cmake)
  file(CONFIGURE OUTPUT ${labels_file} @ONLY
    CONTENT [[if(@arg_NAME@_TESTS)
  set_tests_properties(${@arg_NAME@_TESTS} PROPERTIES LABELS "@arg_LABELS@")
  if("${@arg_NAME@_TESTS}" MATCHES "[^;]*# [^;]*")
    message(FATAL_ERROR "a test's name holds a value: ${CMAKE_MATCH_0}")
  endif()
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
endfunction()

# hbmwire_add_test_part(<target> <file>...): what several test programs share, compiled once. It may use GoogleTest, and
# who links it finds the headers of the whole tree.
function(hbmwire_add_test_part name)
  add_library(${name} STATIC ${ARGN})
  target_compile_options(${name} PRIVATE -O0)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE hbmwire_flags PUBLIC GTest::gtest)
endfunction()

# With the variables of hbmwire_add_test.
macro(hbmwire_add_suites)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${arg_SOURCES})
  set(suites)
  foreach(file IN LISTS arg_SOURCES)
    file(STRINGS ${file} cases REGEX "^TEST(_F|_P)?\\(")
    list(TRANSFORM cases REPLACE "^TEST[_FP]*\\(([A-Za-z0-9]+),.*" "\\1")
    list(APPEND suites ${cases})
  endforeach()
  list(REMOVE_DUPLICATES suites)
  foreach(suite IN LISTS suites)
    add_test(NAME ${arg_NAME}.${suite}
      COMMAND ${emulation} $<TARGET_FILE:${arg_NAME}> --gtest_filter=${suite}.*:*/${suite}.* ${arg_BY_SUITE})
    set_tests_properties(${arg_NAME}.${suite} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
  endforeach()
endmacro()
