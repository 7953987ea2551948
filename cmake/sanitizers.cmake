# HBMWIRE_SANITIZERS: what the build type's -fsanitize= names, "address,undefined" say. Empty: no sanitizer.
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
set(HBMWIRE_SANITIZERS "")
if("${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}" MATCHES "-fsanitize=([a-z,-]+)")
  set(HBMWIRE_SANITIZERS ${CMAKE_MATCH_1})
endif()
