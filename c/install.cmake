# The C interface installs with the library: its headers beside those of C++, hbmwire_c.pc, and the target hbmwire::c of the
# package hbmwire.
install(TARGETS hbmwire_c EXPORT hbmwireTargets LIBRARY FILE_SET HEADERS)
file(RELATIVE_PATH hbmwire_prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" hbmwire_prefix_from_pc "${hbmwire_prefix_from_pc}")
configure_file(hbmwire_c.pc.in ${HBMWIRE_BINARY_DIR}/package/hbmwire_c.pc @ONLY)
install(FILES ${HBMWIRE_BINARY_DIR}/package/hbmwire_c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/c FILES_MATCHING PATTERN "*.c" PATTERN CMakeLists.txt)
set_target_properties(hbmwire_c PROPERTIES INSTALL_RPATH "$ORIGIN")
