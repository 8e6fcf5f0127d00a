# A stand-in for HIP's CMake package, as it is where HIP is installed in part: it stops CMake.

message(FATAL_ERROR "File or directory /usr/bin/hipcc referenced by variable hip_HIPCC_EXECUTABLE does not exist !")
