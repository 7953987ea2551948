# hbmwire_add_test(NAME <target> SOURCES <file>... [LIBRARIES <lib>...] [LABELS <label>...]
#                  [EMULATED <option of hbmwire emulate>...] [TIMEOUT <seconds>])
#
# One GoogleTest program, each of its cases a ctest of its own, named <target>.<Suite>.<Case>. With EMULATED every
# case runs under `hbmwire emulate <options> --`. Label "full" keeps a program out of the fast suite (scripts/test).
include(GoogleTest)
find_package(GTest REQUIRED)

function(hbmwire_add_test)
  cmake_parse_arguments(arg "" "NAME;TIMEOUT" "SOURCES;LIBRARIES;LABELS;EMULATED" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE hbmwire_flags ${arg_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(arg_EMULATED)
    set_target_properties(${arg_NAME} PROPERTIES
      CROSSCOMPILING_EMULATOR "$<TARGET_FILE:hbmwire_tool>;emulate;--quiet;${arg_EMULATED};--")
    add_dependencies(${arg_NAME} hbmwire_tool hbmwire_emulation)
  endif()
  gtest_discover_tests(${arg_NAME} TEST_PREFIX "${arg_NAME}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${arg_TIMEOUT})
  # Not among the PROPERTIES above: gtest_discover_tests loses all labels but the first, and what follows them.
  set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_labels.cmake)
  file(CONFIGURE OUTPUT ${labels_file} @ONLY
    CONTENT [[if(@arg_NAME@_TESTS)
  set_tests_properties(${@arg_NAME@_TESTS} PROPERTIES LABELS "@arg_LABELS@")
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
endfunction()
