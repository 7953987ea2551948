# HBMWIRE_SANITIZERS: what the build type's -fsanitize= names, "address,undefined" say. Empty: no sanitizer.
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
set(HBMWIRE_SANITIZERS "")
if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}" MATCHES "-fsanitize=([a-z,-]+)")
  set(HBMWIRE_SANITIZERS ${CMAKE_MATCH_1})
endif()
# UndefinedBehaviorSanitizer describes each place that it watches by pointers; a program that may lie anywhere has some
# hundred thousand of them to relocate whenever it starts, a tenth of a second or more, and each test starts a few.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND HBMWIRE_SANITIZERS MATCHES "undefined")
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
endif()
