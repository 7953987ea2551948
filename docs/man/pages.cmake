# Pages for man(1), made of the manuals in Markdown. Included where pages are made: docs/man and emulation/install.cmake.
#
# hbmwire_add_man_page(<name> <section> <folder> <manual>...): the page share/man/man<section>/<name>.<section> of the build
# folder, of these files of the folder, and its installation. Links in the manuals start from the folder.
# hbmwire_add_man_alias(<name> <section> <page>): another name of a page.
# Without pandoc, and with HBMWIRE_BUILD_MAN=OFF, HBMWIRE_MAN is OFF and both do nothing.
include_guard(GLOBAL)
set(HBMWIRE_BUILD_MAN AUTO CACHE STRING "Make pages for man(1): ON needs pandoc, AUTO makes them where pandoc is installed")
set_property(CACHE HBMWIRE_BUILD_MAN PROPERTY STRINGS AUTO ON OFF)
find_program(HBMWIRE_PANDOC pandoc DOC "Makes pages for man(1) of Markdown")
mark_as_advanced(HBMWIRE_PANDOC)

set(hbmwire_man OFF)
# A build with HBMWIRE_REDUCED_TESTS has nothing to install.
if(HBMWIRE_BUILD_MAN STREQUAL "AUTO" AND NOT HBMWIRE_REDUCED_TESTS)
  if(HBMWIRE_PANDOC)
    set(hbmwire_man ON)
  else()
    message(STATUS "Man pages are left out: pandoc is not installed. Remedy: install the package pandoc, or set "
                   "HBMWIRE_PANDOC to the program's path, and configure again")
  endif()
elseif(NOT HBMWIRE_BUILD_MAN STREQUAL "AUTO" AND HBMWIRE_BUILD_MAN)
  if(NOT HBMWIRE_PANDOC)
    message(FATAL_ERROR "HBMWIRE_BUILD_MAN=ON needs pandoc, which is not installed. Install the package pandoc, set "
                        "HBMWIRE_PANDOC to the program's path, or leave HBMWIRE_BUILD_MAN at AUTO")
  endif()
  set(hbmwire_man ON)
endif()
# Other folders call the functions below, and see no variables of this one.
set_property(GLOBAL PROPERTY HBMWIRE_MAN ${hbmwire_man})
set_property(GLOBAL PROPERTY HBMWIRE_MAN_GENERATOR ${CMAKE_CURRENT_LIST_DIR})
# All pages of all sections. They are installed, so that a plain build has to make them.
if(hbmwire_man)
  add_custom_target(hbmwire_man ALL)
endif()

# Where pages of any section lie in the build folder: man -M finds them there.
set_property(GLOBAL PROPERTY HBMWIRE_MAN_OUTPUT ${HBMWIRE_BINARY_DIR}/share/man)

# A target that makes `page`, and the page's installation.
function(hbmwire_install_man_page name section page)
  add_custom_target(hbmwire_man_${name}_${section} DEPENDS ${page})
  add_dependencies(hbmwire_man hbmwire_man_${name}_${section})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endfunction()

function(hbmwire_add_man_page name section folder)
  get_property(enabled GLOBAL PROPERTY HBMWIRE_MAN)
  if(NOT enabled)
    return()
  endif()
  get_property(generator GLOBAL PROPERTY HBMWIRE_MAN_GENERATOR)
  get_property(output GLOBAL PROPERTY HBMWIRE_MAN_OUTPUT)
  set(page ${output}/man${section}/${name}.${section})
  get_filename_component(folder ${folder} ABSOLUTE)
  file(RELATIVE_PATH folder_in_tree ${HBMWIRE_SOURCE_DIR} ${folder})
  list(TRANSFORM ARGN PREPEND ${folder}/ OUTPUT_VARIABLE manuals)
  list(TRANSFORM ARGN PREPEND ${folder_in_tree}/ OUTPUT_VARIABLE sources)
  list(JOIN sources ", " sources)
  string(TOUPPER ${name} title)
  # No date: the same sources make the same page.
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${output}/man${section}
    COMMAND ${HBMWIRE_PANDOC} --from gfm+definition_lists --to man --standalone --template ${generator}/page.man
      --lua-filter ${generator}/manual.lua --metadata "page=${name}(${section})" --metadata folder=${folder_in_tree}
      --variable title=${title} --variable section=${section} --variable "source=${sources}"
      --variable "footer=hbmwire ${PROJECT_VERSION}" --variable "header=hbmwire manual" --output ${page} ${manuals}
    DEPENDS ${manuals} ${generator}/page.man ${generator}/manual.lua
    COMMENT "Making the man page ${name}(${section})" VERBATIM)
  hbmwire_install_man_page(${name} ${section} ${page})
endfunction()

function(hbmwire_add_man_alias name section page)
  get_property(enabled GLOBAL PROPERTY HBMWIRE_MAN)
  if(NOT enabled)
    return()
  endif()
  get_property(output GLOBAL PROPERTY HBMWIRE_MAN_OUTPUT)
  set(alias ${output}/man${section}/${name}.${section})
  file(CONFIGURE OUTPUT ${alias} CONTENT ".so man${section}/${page}.${section}\n")
  install(FILES ${alias} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endfunction()
