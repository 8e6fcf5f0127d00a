# A stand-in for HIP's CMake package, as it is where HIP is installed whole.

if(NOT TARGET hip::host)
  add_library(hip::host INTERFACE IMPORTED)
  set_target_properties(hip::host PROPERTIES INTERFACE_COMPILE_DEFINITIONS "__HIP_PLATFORM_AMD__=1")
endif()
