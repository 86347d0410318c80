# Compiler settings and the functions that make every target of the project.
include(GNUInstallDirs)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
option(VOLADOR_STATIC "Programs that need libc alone, for a package that runs on other distributions (scripts/package.sh)" OFF)
if(VOLADOR_STATIC)
  include(VoladorStatic)
else()
  find_package(fmt REQUIRED)
  find_package(spdlog REQUIRED)
  find_package(yaml-cpp REQUIRED)
  find_package(CAF REQUIRED)
endif()
find_package(OpenSSL REQUIRED)
if(NOT VOLADOR_STATIC)
  find_package(CURL REQUIRED)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# What one checkout has compiled serves every other: paths count from the tree, and times of files do not count.
find_program(VOLADOR_CCACHE ccache)
if(VOLADOR_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                CCACHE_SLOPPINESS=include_file_mtime,include_file_ctime,time_macros,pch_defines ${VOLADOR_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()
find_program(VOLADOR_MOLD mold)
if(VOLADOR_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Up to 24 files a compilation: a third of the time of a whole build, more for that of a single change. So scripts that build everything ask for
# it, people who work on the code do not. It wants names that are unique in a library or test, those of unnamed namespaces too.
option(VOLADOR_UNITY "Compile up to 24 files at once" OFF)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
# volador_unity(TARGET): compiles its files together where that is asked for.
function(volador_unity target)
  if(VOLADOR_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()

# No file names where the tree lies: not in what is said of a broken invariant, and what ccache keeps serves a tree in any other place.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

# Warnings and sanitizers for our own code.
add_library(volador_flags INTERFACE)
target_compile_options(volador_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
                                               -Wno-sign-conversion -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # It warns of "x" + std::string (bug 105651 of g++ 12).
  target_compile_options(volador_flags INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
  if(VOLADOR_UNITY)  # An unnamed namespace of a file that is included looks like one of a header; what it holds, the next file may hide.
    target_compile_options(volador_flags INTERFACE -Wno-subobject-linkage -Wno-shadow -Wshadow=local)
  endif()
endif()
if(VOLADOR_WERROR)
  target_compile_options(volador_flags INTERFACE -Werror)
endif()
target_include_directories(volador_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(VOLADOR_SANITIZE)
  # On the build machines time goes to the compiler, not to the tests: not optimised, but for threads, where what is optimised a little
  # compiles no slower and its tests take a quarter.
  add_compile_options(-fsanitize=${VOLADOR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  if(VOLADOR_SANITIZE MATCHES thread)
    add_compile_options(-O1)
  else()
    add_compile_options(-O0)
  endif()
  add_link_options(-fsanitize=${VOLADOR_SANITIZE})
  add_compile_definitions(VOLADOR_SANITIZED=1)
  if(VOLADOR_SANITIZE MATCHES thread)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options(-Wno-tsan)  # It warns of fences that we do not rely on.
    endif()
  elseif(VOLADOR_SANITIZE MATCHES undefined)
    # They double what the compiler has to do: a null pointer ends at the guard page, the others find nothing without optimisation.
    # Alignment costs a third of what is left: it is looked at where bytes are read as something else (volador_check_alignment).
    add_compile_options(-fno-sanitize=null,object-size,vptr,alignment)
  endif()
endif()

# volador_check_alignment(): for the targets of the calling folder and those below it, which lay what they store over bytes.
function(volador_check_alignment)
  if(VOLADOR_SANITIZE MATCHES undefined)
    add_compile_options(-fsanitize=alignment)
  endif()
endfunction()

# volador_library(NAME [FOLDERS folder…] [DEPENDS target…]): a static library of the *.cc files of the calling folder and of the given folders in it.
function(volador_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  list(TRANSFORM ARG_FOLDERS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM ARG_FOLDERS APPEND /)
  set(sources)
  set(headers)
  foreach(folder IN ITEMS ${CMAKE_CURRENT_SOURCE_DIR}/ LISTS ARG_FOLDERS)
    file(GLOB in_folder CONFIGURE_DEPENDS ${folder}*.cc)
    list(APPEND sources ${in_folder})
    file(GLOB in_folder CONFIGURE_DEPENDS ${folder}*.h)
    list(APPEND headers ${in_folder})
  endforeach()
  add_library(volador_${name} STATIC ${sources})
  target_sources(volador_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
  set_target_properties(volador_${name} PROPERTIES LINKER_LANGUAGE CXX VERIFY_INTERFACE_HEADER_SETS ON)
  volador_unity(volador_${name})
  target_link_libraries(volador_${name} PUBLIC ${ARG_DEPENDS} PRIVATE $<BUILD_INTERFACE:volador_flags> ${ARG_PRIVATE_DEPENDS})
  set_property(GLOBAL APPEND PROPERTY VOLADOR_LIBRARIES volador_${name})
endfunction()

# volador_program(NAME SOURCES file… [DEPENDS target…]): an executable in build/bin.
function(volador_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  volador_unity(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} volador_flags $<$<BOOL:${VOLADOR_STATIC}>:volador_arc4random>)
endfunction()

# volador_test(NAME [DEPENDS target…] [LABELS label…] [TIMEOUT seconds] [SINGLE_THREAD]): one GoogleTest binary of the *_test.cc files of the calling
# folder, and a ctest entry of the same name. Without LABELS it has the name of its folder where that is one of sim, contract,
# integration, fault, fuzz, cli, bench and examples, else "unit". Those of unit, sim and fuzz are run under the sanitizers as well: the
# target sanitized_tests builds them. SINGLE_THREAD: neither the tests nor what they test start a thread, so that the thread sanitizer has
# nothing to find; it leaves them out.
add_custom_target(sanitized_tests)
function(volador_test name)
  cmake_parse_arguments(ARG "SINGLE_THREAD" "TIMEOUT" "DEPENDS;LABELS;SOURCES" ${ARGN})
  if(ARG_SINGLE_THREAD AND VOLADOR_SANITIZE MATCHES thread)
    return()
  endif()
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  endif()
  if(NOT ARG_SOURCES)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(VOLADOR_SANITIZE)  # They take several times as long, not optimised, and run side by side.
    math(EXPR ARG_TIMEOUT "8 * ${ARG_TIMEOUT}")
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
    if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/(sim|contract|integration|fault|fuzz|cli|bench|examples)(/|$)")
      set(ARG_LABELS ${CMAKE_MATCH_1})
    endif()
  endif()
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_SOURCES})
  volador_unity(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main volador_flags)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if(VOLADOR_SANITIZE MATCHES thread)
    # CAF and gRPC are not instrumented.
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1:suppressions=${PROJECT_SOURCE_DIR}/tests/tsan_suppressions.txt")
  endif()
  if(ARG_LABELS MATCHES "^(unit|sim|fuzz)$")
    add_dependencies(sanitized_tests ${name})
  endif()
endfunction()
