# Finds LibTorch in a torch wheel of PyPI and makes the target LibTorch::LibTorch.
#
# The wheel's own TorchConfig.cmake asks for a CUDA toolkit even where only the CPU part is used, hence this file. Looked at:
#   VOLADOR_TORCH, as a CMake or an environment variable: the torch folder of a wheel; OFF: LibTorch counts as not there
#   ${XDG_CACHE_HOME:-~/.cache}/volador/torch-<version>/torch, where scripts/setup.sh puts it
#   the torch package of the Python interpreter in PATH (python3), a virtual environment included
#
# Sets LibTorch_FOUND, LibTorch_VERSION and LibTorch_FOLDER, the torch folder. The target
#   - links libtorch_cpu and libc10 as needed, with an RPATH into the wheel;
#   - has the wheel's headers behind all others (-idirafter): it carries fmt/, google/protobuf/ and pybind11/ of its own;
#   - sets the C++ ABI that the wheel was built with.

set(_libtorch_folder "${VOLADOR_TORCH}")
if(_libtorch_folder STREQUAL "" AND DEFINED ENV{VOLADOR_TORCH})
  set(_libtorch_folder "$ENV{VOLADOR_TORCH}")
endif()

set(_libtorch_reason "")
if(_libtorch_folder STREQUAL "OFF")
  set(_libtorch_folder "")
  set(_libtorch_reason "VOLADOR_TORCH is OFF")
elseif(_libtorch_folder STREQUAL "")
  if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(_libtorch_cache "$ENV{XDG_CACHE_HOME}")
  else()
    set(_libtorch_cache "$ENV{HOME}/.cache")
  endif()
  # An installed Volador has the list of wheels beside this file.
  set(_libtorch_wheels "${CMAKE_CURRENT_LIST_DIR}/libtorch.txt")
  if(NOT EXISTS "${_libtorch_wheels}")
    set(_libtorch_wheels "${CMAKE_CURRENT_LIST_DIR}/../scripts/libtorch.txt")
  endif()
  file(STRINGS "${_libtorch_wheels}" _libtorch_pin REGEX "^torch==")
  string(REGEX REPLACE "^torch==([^ ]+).*" "\\1" _libtorch_pin "${_libtorch_pin}")
  set(_libtorch_folder "${_libtorch_cache}/volador/torch-${_libtorch_pin}/torch")
  if(NOT EXISTS "${_libtorch_folder}/lib/libtorch_cpu.so")
    # Finding the package does not import it, which would take half a second and its dependencies.
    execute_process(COMMAND python3 -c "import importlib.util, os; spec = importlib.util.find_spec('torch'); print(os.path.dirname(spec.origin) if spec and spec.origin else '')"
                    OUTPUT_VARIABLE _libtorch_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT EXISTS "${_libtorch_folder}/lib/libtorch_cpu.so")
    set(_libtorch_reason "python3 has no torch package and no other is named; install one (pip install torch==${_libtorch_pin}) or set VOLADOR_TORCH to the torch folder of a wheel")
    set(_libtorch_folder "")
  endif()
elseif(NOT EXISTS "${_libtorch_folder}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "VOLADOR_TORCH=${_libtorch_folder} holds no lib/libtorch_cpu.so; name the torch folder of a wheel, or OFF")
endif()

set(LibTorch_FOUND FALSE)
if(_libtorch_folder)
  get_filename_component(_libtorch_folder "${_libtorch_folder}" REALPATH)
  file(STRINGS "${_libtorch_folder}/version.py" _libtorch_version REGEX "^__version__ = ")
  string(REGEX REPLACE "^__version__ = '([0-9.]+).*" "\\1" LibTorch_VERSION "${_libtorch_version}")
  # torch/headeronly/macros says 0 where the wheel still has the ABI of before 2011.
  set(_libtorch_abi 1)
  set(_libtorch_config "${_libtorch_folder}/share/cmake/Torch/TorchConfig.cmake")
  if(EXISTS "${_libtorch_config}")
    file(STRINGS "${_libtorch_config}" _libtorch_old_abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
    if(_libtorch_old_abi)
      set(_libtorch_abi 0)
    endif()
  endif()

  if(NOT TARGET LibTorch::LibTorch)
    add_library(LibTorch::LibTorch INTERFACE IMPORTED)
    set_target_properties(LibTorch::LibTorch PROPERTIES
      INTERFACE_COMPILE_OPTIONS "SHELL:-idirafter ${_libtorch_folder}/include/torch/csrc/api/include;SHELL:-idirafter ${_libtorch_folder}/include"
      INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=${_libtorch_abi}"
      INTERFACE_LINK_LIBRARIES "-Wl,--push-state,--as-needed;${_libtorch_folder}/lib/libtorch_cpu.so;${_libtorch_folder}/lib/libc10.so;-Wl,--pop-state"
      INTERFACE_LINK_OPTIONS "-Wl,-rpath,${_libtorch_folder}/lib;-Wl,-rpath-link,${_libtorch_folder}/lib")
  endif()
  set(LibTorch_FOUND TRUE)
  set(LibTorch_FOLDER "${_libtorch_folder}")
  if(NOT LibTorch_FIND_QUIETLY)
    message(STATUS "LibTorch ${LibTorch_VERSION}: ${_libtorch_folder}")
  endif()
else()
  set(LibTorch_NOT_FOUND_MESSAGE "${_libtorch_reason}")
  if(LibTorch_FIND_REQUIRED)
    message(FATAL_ERROR "LibTorch not found: ${_libtorch_reason}")
  elseif(NOT LibTorch_FIND_QUIETLY)
    message(STATUS "LibTorch left out: ${_libtorch_reason}")
  endif()
endif()
