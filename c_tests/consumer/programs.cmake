# The programs, strict as a careful user's.

add_executable(consumer_c "${CMAKE_CURRENT_LIST_DIR}/main.c")
add_executable(consumer_cxx "${CMAKE_CURRENT_LIST_DIR}/main.cpp")
target_link_libraries(consumer_c PRIVATE hipdnn_backend)
target_link_libraries(consumer_cxx PRIVATE hipdnn_backend)
add_library(consumer_plugin MODULE "${CMAKE_CURRENT_LIST_DIR}/plugin.c")
target_link_libraries(consumer_plugin PRIVATE hipdnn_plugin_headers)
foreach(_program consumer_c consumer_cxx consumer_plugin)
  target_compile_options(${_program} PRIVATE -Wall -Wextra -pedantic -Werror)
  set_target_properties(${_program} PROPERTIES
    C_STANDARD 11 C_EXTENSIONS OFF CXX_STANDARD 17 CXX_EXTENSIONS OFF)
endforeach()
