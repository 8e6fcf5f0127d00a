# The programs, with a careful user's warnings.

add_executable(consumer_c "${CMAKE_CURRENT_LIST_DIR}/main.c")
add_executable(consumer_cxx "${CMAKE_CURRENT_LIST_DIR}/main.cpp")
target_link_libraries(consumer_c PRIVATE hipdnn_backend)
target_link_libraries(consumer_cxx PRIVATE hipdnn_backend)
add_library(consumer_plugin MODULE "${CMAKE_CURRENT_LIST_DIR}/plugin.c")
target_link_libraries(consumer_plugin PRIVATE hipdnn_plugin_headers)
# The C++ classes under their own names, under AMD's, and without linking the library.
add_executable(consumer_graph "${CMAKE_CURRENT_LIST_DIR}/graph.cpp")
target_link_libraries(consumer_graph PRIVATE hipdnn::hipdnn)
add_executable(consumer_frontend "${CMAKE_CURRENT_LIST_DIR}/frontend.cpp")
target_link_libraries(consumer_frontend PRIVATE hipdnn::hipdnn hipdnn::compat)
add_executable(consumer_dynamic "${CMAKE_CURRENT_LIST_DIR}/frontend.cpp")
target_link_libraries(consumer_dynamic PRIVATE hipdnn::hipdnn_dynamic hipdnn::compat)
foreach(_program consumer_c consumer_cxx consumer_plugin consumer_graph consumer_frontend consumer_dynamic)
  target_compile_options(${_program} PRIVATE -Wall -Wextra -pedantic -Werror)
  set_target_properties(${_program} PROPERTIES
    C_STANDARD 11 C_EXTENSIONS OFF CXX_STANDARD 17 CXX_EXTENSIONS OFF)
endforeach()
