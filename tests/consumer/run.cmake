# Installs the build into a fresh prefix, moves the prefix, builds the project beside this file against it and runs its program.
# cmake -DBUILD=… -DPROJECT=… -DWORK=… [-DLAUNCHER=…] [-DTORCH=…] -P run.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " words)
    message(FATAL_ERROR "${words}: exit code ${code}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/prefix)
run(${WORK}/prefix/bin/volador version)
run(${CMAKE_COMMAND} -G Ninja -S ${PROJECT} -B ${WORK}/build -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DVOLADOR_TORCH=${TORCH})
run(${CMAKE_COMMAND} --build ${WORK}/build)
# State of its own, so that no cluster of the user is found.
set(ENV{VOLADOR_HOME} ${WORK}/home)
unset(ENV{VOLADOR_ADDRESS})
unset(ENV{VOLADOR_TOKEN})
run(${WORK}/build/consumer)
if(NOT TORCH STREQUAL "OFF")
  run(${WORK}/build/torch_consumer)
  run(${WORK}/build/train_consumer)
endif()
# A component that is not there is an error that says what to do.
execute_process(COMMAND ${CMAKE_COMMAND} -G Ninja -S ${PROJECT} -B ${WORK}/without -DCMAKE_PREFIX_PATH=${WORK}/prefix -DVOLADOR_TORCH=OFF -DREQUIRE_TORCH=ON
                RESULT_VARIABLE code ERROR_VARIABLE error OUTPUT_QUIET)
if(code EQUAL 0 OR NOT error MATCHES "component torch: VOLADOR_TORCH is OFF")
  message(FATAL_ERROR "find_package(volador COMPONENTS torch) without LibTorch: exit code ${code}: ${error}")
endif()
file(REMOVE_RECURSE ${WORK})
