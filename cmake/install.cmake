# Installation. All files below the prefix are found by relative paths, so that the tree can be moved. tests/install tests that
# by building two programs that use it.
include(CMakePackageConfigHelpers)

# The path from an installed program to its library, and from the seeds' program names to the program.
file(RELATIVE_PATH hbmwire_lib_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH hbmwire_bin_from_libexec ${CMAKE_INSTALL_FULL_LIBEXECDIR}/hbmwire ${CMAKE_INSTALL_FULL_BINDIR})

if(HBMWIRE_BUILD_TOOLS)
  set_target_properties(hbmwire_tool PROPERTIES INSTALL_RPATH "$ORIGIN/${hbmwire_lib_from_bin}")
  install(TARGETS hbmwire_tool RUNTIME)
  # Completion. Debian's packages have a separate folder for zsh. Elsewhere, and for manual installations, zsh searches
  # site-functions.
  if(NOT DEFINED HBMWIRE_ZSH_COMPLETION_DIR)
    set(HBMWIRE_ZSH_COMPLETION_DIR ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
      set(HBMWIRE_ZSH_COMPLETION_DIR ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
    endif()
  endif()
  install(FILES ${HBMWIRE_SOURCE_DIR}/tools/completion/hbmwire.bash RENAME hbmwire
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${HBMWIRE_SOURCE_DIR}/tools/completion/_hbmwire DESTINATION ${HBMWIRE_ZSH_COMPLETION_DIR})
  # rdma_server and rdma_client are links to the program, which checks the name it was called by. They are in libexec, because
  # Debian's rdmacm-utils owns these names in /usr/bin.
  foreach(name rdma_server rdma_client)
    file(MAKE_DIRECTORY ${HBMWIRE_BINARY_DIR}/libexec/hbmwire ${HBMWIRE_BINARY_DIR}/install-links)
    file(CREATE_LINK ../../bin/hbmwire ${HBMWIRE_BINARY_DIR}/libexec/hbmwire/${name} SYMBOLIC)
    file(CREATE_LINK ${hbmwire_bin_from_libexec}/hbmwire ${HBMWIRE_BINARY_DIR}/install-links/${name} SYMBOLIC)
    install(FILES ${HBMWIRE_BINARY_DIR}/install-links/${name} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/hbmwire)
  endforeach()
endif()

install(TARGETS hbmwire EXPORT hbmwireTargets LIBRARY ARCHIVE FILE_SET HEADERS)
set(hbmwire_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hbmwire)
install(EXPORT hbmwireTargets NAMESPACE hbmwire:: DESTINATION ${hbmwire_package_dir})
configure_package_config_file(${HBMWIRE_SOURCE_DIR}/cmake/hbmwireConfig.cmake.in
  ${HBMWIRE_BINARY_DIR}/package/hbmwireConfig.cmake INSTALL_DESTINATION ${hbmwire_package_dir})
write_basic_package_version_file(${HBMWIRE_BINARY_DIR}/package/hbmwireConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${HBMWIRE_BINARY_DIR}/package/hbmwireConfig.cmake ${HBMWIRE_BINARY_DIR}/package/hbmwireConfigVersion.cmake
  DESTINATION ${hbmwire_package_dir})

file(RELATIVE_PATH hbmwire_prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" hbmwire_prefix_from_pc "${hbmwire_prefix_from_pc}")
configure_file(${HBMWIRE_SOURCE_DIR}/cmake/hbmwire.pc.in ${HBMWIRE_BINARY_DIR}/package/hbmwire.pc @ONLY)
install(FILES ${HBMWIRE_BINARY_DIR}/package/hbmwire.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES ${HBMWIRE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${HBMWIRE_SOURCE_DIR}/examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
  FILES_MATCHING PATTERN "*.cpp" PATTERN CMakeLists.txt)
foreach(document README.md ARCHITECTURE.md docs)
  if(IS_DIRECTORY ${HBMWIRE_SOURCE_DIR}/${document})
    # docs/man contains only the generator of pages, not the pages.
    install(DIRECTORY ${HBMWIRE_SOURCE_DIR}/${document}/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/${document}
      FILES_MATCHING PATTERN "*.md" PATTERN "*.sbatch" PATTERN "*.yaml" PATTERN man EXCLUDE)
  else()
    install(FILES ${HBMWIRE_SOURCE_DIR}/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
  endif()
endforeach()
