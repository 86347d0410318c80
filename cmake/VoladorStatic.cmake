# The libraries of a package that runs on other distributions: archives in place of shared libraries, with the same targets. Where Debian has
# no archive, it is compiled here: fmt and spdlog of their headers, CAF of its sources. So is libcurl: Debian's archive needs libraries for
# LDAP and Kerberos that have none.
#
# VOLADOR_CAF_SOURCE: the unpacked sources of the CAF whose headers are installed; scripts/package.sh fetches them.
# VOLADOR_CURL_SOURCE: likewise of curl.
set(VOLADOR_CAF_SOURCE "" CACHE PATH "Sources of CAF, for VOLADOR_STATIC")
if(NOT EXISTS "${VOLADOR_CAF_SOURCE}/libcaf_core/src")
  message(FATAL_ERROR "VOLADOR_CAF_SOURCE: expected the folder of CAF's sources, with libcaf_core in it, got \"${VOLADOR_CAF_SOURCE}\"; "
                      "VOLADOR_STATIC needs it, and scripts/package.sh fetches it")
endif()

set(VOLADOR_CURL_SOURCE "" CACHE PATH "Sources of curl, for VOLADOR_STATIC")
if(NOT EXISTS "${VOLADOR_CURL_SOURCE}/lib/CMakeLists.txt")
  message(FATAL_ERROR "VOLADOR_CURL_SOURCE: expected the folder of curl's sources, with lib in it, got \"${VOLADOR_CURL_SOURCE}\"; "
                      "VOLADOR_STATIC needs it, and scripts/package.sh fetches it")
endif()

set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(OPENSSL_USE_STATIC_LIBS ON)
set(Protobuf_USE_STATIC_LIBS ON)
set(ZLIB_USE_STATIC_LIBS ON)

# Warnings are for our own code.
add_library(volador_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cc)
set_target_properties(volador_fmt PROPERTIES CXX_STANDARD 20)
target_compile_options(volador_fmt PRIVATE -w)
target_compile_definitions(volador_fmt PUBLIC FMT_SHARED)  # As in Debian's target: what ccache keeps serves both builds.
add_library(fmt::fmt ALIAS volador_fmt)

add_library(volador_spdlog INTERFACE)
target_compile_definitions(volador_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(volador_spdlog INTERFACE fmt::fmt Threads::Threads)
add_library(spdlog::spdlog ALIAS volador_spdlog)

file(GLOB_RECURSE _caf_sources ${VOLADOR_CAF_SOURCE}/libcaf_core/src/*.cpp)
list(FILTER _caf_sources EXCLUDE REGEX "_windows\\.cpp$")
find_path(CAF_INCLUDE_DIR caf/actor_system.hpp REQUIRED)
add_library(volador_caf STATIC ${_caf_sources})
set_target_properties(volador_caf PROPERTIES CXX_STANDARD 17)
target_compile_options(volador_caf PRIVATE -w -fmacro-prefix-map=${VOLADOR_CAF_SOURCE}/=)
target_include_directories(volador_caf SYSTEM PUBLIC ${CAF_INCLUDE_DIR})
target_link_libraries(volador_caf PUBLIC Threads::Threads)
add_library(CAF::core ALIAS volador_caf)

# Only HTTP and SMTP over OpenSSL, with the certificates that OpenSSL finds.
foreach(_option CURL_USE_OPENSSL CURL_CA_FALLBACK CURL_DISABLE_ALTSVC CURL_DISABLE_COOKIES CURL_DISABLE_DICT CURL_DISABLE_FILE CURL_DISABLE_FTP
        CURL_DISABLE_GOPHER CURL_DISABLE_HSTS CURL_DISABLE_IMAP CURL_DISABLE_LDAP CURL_DISABLE_LDAPS CURL_DISABLE_MQTT CURL_DISABLE_NETRC
        CURL_DISABLE_NTLM CURL_DISABLE_POP3 CURL_DISABLE_RTSP CURL_DISABLE_SMB CURL_DISABLE_TELNET CURL_DISABLE_TFTP)
  set(${_option} ON CACHE BOOL "" FORCE)
endforeach()
foreach(_option BUILD_CURL_EXE BUILD_SHARED_LIBS BUILD_TESTING ENABLE_MANUAL CURL_ZLIB CURL_BROTLI CURL_ZSTD CURL_USE_LIBSSH2 CURL_USE_LIBPSL
        USE_LIBIDN2 USE_NGHTTP2)
  set(${_option} OFF CACHE BOOL "" FORCE)
endforeach()
set(CURL_CA_BUNDLE none CACHE STRING "" FORCE)
set(CURL_CA_PATH none CACHE STRING "" FORCE)
add_subdirectory(${VOLADOR_CURL_SOURCE} ${CMAKE_BINARY_DIR}/curl EXCLUDE_FROM_ALL)
target_compile_options(libcurl PRIVATE -w -ffile-prefix-map=${VOLADOR_CURL_SOURCE}/=)

find_library(VOLADOR_YAML_CPP yaml-cpp REQUIRED)
add_library(yaml-cpp STATIC IMPORTED)
set_target_properties(yaml-cpp PROPERTIES IMPORTED_LOCATION ${VOLADOR_YAML_CPP})

# An object, since libstdc++ comes after all archives; volador_program links it.
add_library(volador_arc4random OBJECT ${CMAKE_CURRENT_LIST_DIR}/arc4random.cc)
set_target_properties(volador_arc4random PROPERTIES CXX_STANDARD 20)

add_link_options(-static-libstdc++ -static-libgcc -Wl,--gc-sections)
