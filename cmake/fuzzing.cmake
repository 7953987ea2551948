# hbmwire_add_fuzzer(<name> <library>...): <name>_fuzzer.cpp, with its corpus in corpus/<name>. The fuzz preset builds the
# fuzzers themselves; every build replays the corpora.
include_guard(DIRECTORY)
if(NOT TARGET fuzz_replay)
  add_library(fuzz_replay STATIC ${HBMWIRE_SOURCE_DIR}/tests/support/fuzz_replay_main.cpp)
  target_link_libraries(fuzz_replay PRIVATE hbmwire_flags)
endif()

function(hbmwire_add_fuzzer name)
  if(HBMWIRE_BUILD_FUZZERS)
    add_executable(${name}_fuzzer ${name}_fuzzer.cpp)
    target_link_libraries(${name}_fuzzer PRIVATE ${ARGN} hbmwire_flags)
    target_compile_options(${name}_fuzzer PRIVATE -fsanitize=fuzzer)
    target_link_options(${name}_fuzzer PRIVATE -fsanitize=fuzzer)
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name})
    # Seconds; scripts/test --full sets FUZZ_SECONDS to more.
    set(seconds $ENV{FUZZ_SECONDS})
    if(NOT seconds)
      set(seconds 20)
    endif()
    math(EXPR timeout "${seconds} + 120")
    add_test(NAME fuzz.${name}
      COMMAND ${name}_fuzzer -max_total_time=${seconds} -print_final_stats=1
              ${CMAKE_CURRENT_BINARY_DIR}/${name} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS "fuzz;full" TIMEOUT ${timeout})
  endif()
  add_executable(${name}_replay ${name}_fuzzer.cpp)
  target_link_libraries(${name}_replay PRIVATE fuzz_replay ${ARGN} hbmwire_flags)
  add_test(NAME fuzz.${name}_replay COMMAND ${name}_replay ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
  set_tests_properties(fuzz.${name}_replay PROPERTIES LABELS unit)
endfunction()
