# Install rules and the exported CMake package: find_package(volador CONFIG) gives volador::volador and volador::tune, with
# COMPONENTS torch also volador::torch and, where Volador was built with LibTorch, volador::train.
# The prefix may be moved after the installation.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Our headers name each other from the root of the tree ("runtime/ids.h"), so they get a root of their own below include/.
set(VOLADOR_INSTALL_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR}/volador-${PROJECT_VERSION_MAJOR})
set(VOLADOR_INSTALL_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/volador)

if(VOLADOR_STATIC)
  # scripts/package.sh adds the one library and the headers of the programs' interface, of which nothing else is needed.
  set(_volador_config volador-config-static.cmake.in)
else()
  set(_volador_config volador-config.cmake.in)
  get_property(_volador_libraries GLOBAL PROPERTY VOLADOR_LIBRARIES)
  list(REMOVE_ITEM _volador_libraries volador_cli)
  foreach(_library ${_volador_libraries})
    # volador_tune is volador::tune to the outside.
    string(REGEX REPLACE "^volador_" "" _name ${_library})
    set_target_properties(${_library} PROPERTIES EXPORT_NAME ${_name})
    if(NOT TARGET volador::${_name})
      add_library(volador::${_name} ALIAS ${_library})
    endif()
    get_target_property(_header_sets ${_library} HEADER_SETS)
    set(_headers)
    if(_header_sets)
      set(_headers FILE_SET HEADERS DESTINATION ${VOLADOR_INSTALL_INCLUDEDIR})
    endif()
    # Only programs that ask for LibTorch import what links it.
    set(_export volador)
    if(_library STREQUAL "volador_train")
      set(_export volador-train)
    endif()
    install(TARGETS ${_library} EXPORT ${_export} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/volador ${_headers}
            INCLUDES DESTINATION ${VOLADOR_INSTALL_INCLUDEDIR})
  endforeach()
  install(EXPORT volador NAMESPACE volador:: FILE volador-targets.cmake DESTINATION ${VOLADOR_INSTALL_CMAKEDIR})
  if(TARGET volador_train)
    install(EXPORT volador-train NAMESPACE volador:: FILE volador-train-targets.cmake DESTINATION ${VOLADOR_INSTALL_CMAKEDIR})
  endif()
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/FindCAF.cmake DESTINATION ${VOLADOR_INSTALL_CMAKEDIR})
endif()
if(TARGET volador)
  install(TARGETS volador volador_demo RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/${_volador_config} ${CMAKE_BINARY_DIR}/volador-config.cmake
                              INSTALL_DESTINATION ${VOLADOR_INSTALL_CMAKEDIR} PATH_VARS CMAKE_INSTALL_LIBDIR VOLADOR_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/volador-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/volador-config.cmake ${CMAKE_BINARY_DIR}/volador-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindLibTorch.cmake ${PROJECT_SOURCE_DIR}/scripts/libtorch.txt
        DESTINATION ${VOLADOR_INSTALL_CMAKEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# `format` rewrites the sources as .clang-format says, `format-check` only says which differ.
add_custom_target(format COMMAND ${PROJECT_SOURCE_DIR}/scripts/format.sh VERBATIM)
add_custom_target(format-check COMMAND ${PROJECT_SOURCE_DIR}/scripts/format.sh --check VERBATIM)
