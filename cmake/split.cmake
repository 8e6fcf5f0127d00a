# cmake -DBUILT=FILE -DTARGET=FILE [-DOBJCOPY=PROGRAM] -P split.cmake
#
# Copies a built file if it changed. With objcopy, debug symbols and lines go into a separate file, as
# tools/xtask/src/split.rs does.

if(EXISTS "${TARGET}" AND NOT "${BUILT}" IS_NEWER_THAN "${TARGET}")
  return()
endif()
if(NOT OBJCOPY)
  configure_file("${BUILT}" "${TARGET}" COPYONLY)
  return()
endif()
get_filename_component(_folder "${TARGET}" DIRECTORY)
get_filename_component(_name "${TARGET}" NAME)
set(_debug "${_folder}/.debug")
file(MAKE_DIRECTORY "${_debug}")
file(REMOVE "${TARGET}" "${_debug}/${_name}.debug")
foreach(_arguments
    "--only-keep-debug;--compress-debug-sections;${BUILT};${_name}.debug"
    "--strip-unneeded;--add-gnu-debuglink=${_name}.debug;${BUILT};${TARGET}")
  execute_process(COMMAND "${OBJCOPY}" ${_arguments} WORKING_DIRECTORY "${_debug}" RESULT_VARIABLE _result)
  if(NOT _result EQUAL 0)
    message(FATAL_ERROR "${OBJCOPY} ${_arguments}: ${_result}")
  endif()
endforeach()
