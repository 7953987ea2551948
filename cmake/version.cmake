# HBMWIRE_VERSION: the version that include/hbmwire/version.hpp names.
set(HBMWIRE_VERSION)
foreach(part MAJOR MINOR PATCH)
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../include/hbmwire/version.hpp line REGEX "#define HBMWIRE_VERSION_${part} [0-9]+$")
  string(REGEX MATCH "[0-9]+$" number "${line}")
  list(APPEND HBMWIRE_VERSION ${number})
endforeach()
list(JOIN HBMWIRE_VERSION "." HBMWIRE_VERSION)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/../include/hbmwire/version.hpp)
