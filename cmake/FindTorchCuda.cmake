# Finds what the plug-in for NCCL needs beside LibTorch::LibTorch and makes the target LibTorch::Cuda: libtorch_cuda of the wheel, and the headers
# of CUDA and NCCL.
#
# Headers are looked for in the packages "nvidia" beside the wheel, which pip installs with a torch for CUDA, then in CUDA_HOME, the folder of nvcc
# and /usr/local/cuda. VOLADOR_NCCL=OFF leaves the plug-in out, ON makes missing parts an error.
#
# Sets TorchCuda_FOUND.

set(VOLADOR_NCCL AUTO CACHE STRING "Build the plug-in for NCCL: AUTO (where CUDA and NCCL are found), ON, OFF")
set(TorchCuda_FOUND FALSE)
set(_torch_cuda_reason "")
if(VOLADOR_NCCL STREQUAL "OFF")
  set(_torch_cuda_reason "VOLADOR_NCCL is OFF")
elseif(NOT EXISTS "${LibTorch_FOLDER}/lib/libtorch_cuda.so")
  set(_torch_cuda_reason "the torch package has no CUDA part")
else()
  get_filename_component(_torch_cuda_packages "${LibTorch_FOLDER}" DIRECTORY)
  file(GLOB _torch_cuda_folders "${_torch_cuda_packages}/nvidia/*/include")
  find_program(_torch_cuda_nvcc nvcc)
  if(_torch_cuda_nvcc)
    get_filename_component(_torch_cuda_nvcc_folder "${_torch_cuda_nvcc}" DIRECTORY)
    list(APPEND _torch_cuda_folders "${_torch_cuda_nvcc_folder}/../include")
  endif()
  list(APPEND _torch_cuda_folders "$ENV{CUDA_HOME}/include" /usr/local/cuda/include /usr/include)
  set(_torch_cuda_includes "")
  set(_torch_cuda_missing "")
  foreach(_torch_cuda_header cuda_runtime.h crt/host_config.h cublas_v2.h cusparse.h cusolverDn.h nccl.h)
    unset(_torch_cuda_path)
    foreach(_torch_cuda_folder ${_torch_cuda_folders})
      if(EXISTS "${_torch_cuda_folder}/${_torch_cuda_header}")
        set(_torch_cuda_path "${_torch_cuda_folder}")
        break()
      endif()
    endforeach()
    if(_torch_cuda_path)
      list(APPEND _torch_cuda_includes "${_torch_cuda_path}")
    else()
      list(APPEND _torch_cuda_missing "${_torch_cuda_header}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES _torch_cuda_includes)
  if(_torch_cuda_missing)
    list(JOIN _torch_cuda_missing ", " _torch_cuda_missing)
    set(_torch_cuda_reason "no header ${_torch_cuda_missing} beside the torch package, in CUDA_HOME or beside nvcc (pip install nvidia-cuda-crt brings crt/)")
  endif()
endif()

if(_torch_cuda_reason STREQUAL "")
  if(NOT TARGET LibTorch::Cuda)
    add_library(LibTorch::Cuda INTERFACE IMPORTED)
    set_target_properties(LibTorch::Cuda PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${_torch_cuda_includes}"
      # Symbols of CUDA's own libraries are found when the plug-in is loaded, through the wheel's RPATH.
      INTERFACE_LINK_LIBRARIES "LibTorch::LibTorch;-Wl,--push-state,--no-as-needed;${LibTorch_FOLDER}/lib/libtorch_cuda.so;${LibTorch_FOLDER}/lib/libc10_cuda.so;-Wl,--pop-state;-Wl,--allow-shlib-undefined")
  endif()
  set(TorchCuda_FOUND TRUE)
  message(STATUS "NCCL plug-in: built with ${_torch_cuda_includes}")
elseif(VOLADOR_NCCL STREQUAL "ON")
  message(FATAL_ERROR "VOLADOR_NCCL=ON, but ${_torch_cuda_reason}")
else()
  message(STATUS "NCCL plug-in left out: ${_torch_cuda_reason}")
endif()
