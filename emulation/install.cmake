# Everything below the prefix is found by relative paths, so that the tree may be moved.
install(TARGETS hbmwire_emulate RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/hbmwire)
install(TARGETS ${emulated_libraries} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${HBMWIRE_EMULATION_SUBDIR})
install(FILES ${HBMWIRE_NIC_NAMES} DESTINATION ${CMAKE_INSTALL_LIBDIR}/${HBMWIRE_EMULATION_SUBDIR})
# Keeps the layout of the source tree, so that links between the documents work. Links to the
# product's documents work only if the whole tree is installed.
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/emulation)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/emulation/docs FILES_MATCHING PATTERN "*.md")
# In a build of the whole tree cmake/install.cmake installs it.
if(PROJECT_IS_TOP_LEVEL)
  install(FILES ${HBMWIRE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()

include(../docs/man/pages.cmake)
hbmwire_add_man_page(hbmwire-emulate 1 docs emulate.md)
