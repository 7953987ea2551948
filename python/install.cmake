# Installs the Python package, which is found by relative paths like the rest. python/build_backend.py makes a wheel of it.
# Debian's python3 looks into dist-packages of its own version, below /usr/local and /usr; others look into site-packages.
if(NOT DEFINED HBMWIRE_PYTHON_INSTALL_DIR)
  set(hbmwire_python_name python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
  if(EXISTS /etc/debian_version)
    set(HBMWIRE_PYTHON_INSTALL_DIR lib/${hbmwire_python_name}/dist-packages)
  else()
    set(HBMWIRE_PYTHON_INSTALL_DIR ${CMAKE_INSTALL_LIBDIR}/${hbmwire_python_name}/site-packages)
  endif()
endif()
if(BUILD_SHARED_LIBS)
  file(RELATIVE_PATH hbmwire_lib_from_python ${CMAKE_INSTALL_PREFIX}/${HBMWIRE_PYTHON_INSTALL_DIR}/hbmwire
    ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(hbmwire_python PROPERTIES INSTALL_RPATH "$ORIGIN/${hbmwire_lib_from_python}")
endif()
install(TARGETS hbmwire_python LIBRARY DESTINATION ${HBMWIRE_PYTHON_INSTALL_DIR}/hbmwire COMPONENT hbmwire_python)
list(TRANSFORM HBMWIRE_PYTHON_FILES PREPEND hbmwire/ OUTPUT_VARIABLE hbmwire_python_sources)
install(FILES ${hbmwire_python_sources} DESTINATION ${HBMWIRE_PYTHON_INSTALL_DIR}/hbmwire COMPONENT hbmwire_python)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/python
  FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)

# The package's name and version, for pip and importlib.metadata. A wheel has its own.
set(hbmwire_dist_info ${HBMWIRE_BINARY_DIR}/python/hbmwire-${PROJECT_VERSION}.dist-info)
execute_process(COMMAND ${Python_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/build_backend.py ${HBMWIRE_BINARY_DIR}/python
  COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${HBMWIRE_SOURCE_DIR}/pyproject.toml)
install(DIRECTORY ${hbmwire_dist_info} DESTINATION ${HBMWIRE_PYTHON_INSTALL_DIR})
