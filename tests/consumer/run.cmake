# Installs the build into a fresh prefix, moves the prefix, builds the project beside this file against it and runs its program.
# cmake -DBUILD=… -DPROJECT=… -DWORK=… [-DLAUNCHER=…] -P run.cmake
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
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} --build ${WORK}/build)
# State of its own, so that no cluster of the user is found.
set(ENV{VOLADOR_HOME} ${WORK}/home)
unset(ENV{VOLADOR_ADDRESS})
unset(ENV{VOLADOR_TOKEN})
run(${WORK}/build/consumer)
file(REMOVE_RECURSE ${WORK})
