# The examples and the C test: built against the shared library, as a user's program is, and run as tests.
enable_language(C)
string(REPLACE ";" "," emulator "${CMAKE_CROSSCOMPILING_EMULATOR}")

function(tern_user_program name source)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE tern tern_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples
                        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  # Warnings are errors here in every build: this is the proof that the header is C.
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:C>:-pedantic -Werror>)
endfunction()

tern_user_program(example_quantize_cpp examples/quantize.cpp)
tern_user_program(example_quantize_c examples/quantize.c)
foreach(example example_quantize_cpp example_quantize_c)
  add_test(NAME ${example} COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${example}> -D EMULATOR=${emulator}
           -D EXPECTED=${PROJECT_SOURCE_DIR}/examples/quantize.expected -P ${PROJECT_SOURCE_DIR}/cmake/expect.cmake)
endforeach()

tern_user_program(example_quantize_model examples/quantize_model.c)
add_test(NAME example_quantize_model COMMAND example_quantize_model ${PROJECT_BINARY_DIR}/examples)

# Small, but with sizes that are no multiple of a vector: hidden 80, k and v 20, feed-forward 216.
tern_user_program(example_bitnet_layers examples/bitnet_layers.cpp)
add_test(NAME example_bitnet_layers COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:example_bitnet_layers>
         -D EMULATOR=${emulator}
         -D ARGUMENTS=--layers,3,--tokens,4,--scale-down,32 -D KERNELS=linear.i2.scalar,linear.i2.reference
         -P ${PROJECT_SOURCE_DIR}/cmake/same_checksum.cmake)

# Small images, of which the last maps are 2 x 2, and an odd size.
tern_user_program(example_resnet18 examples/resnet18.cpp)
add_test(NAME example_resnet18 COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:example_resnet18>
         -D EMULATOR=${emulator}
         -D ARGUMENTS=--image,37,--images,2,--runs,1 -D KERNELS=conv2d.i2.scalar,conv2d.i2.reference
         -P ${PROJECT_SOURCE_DIR}/cmake/same_checksum.cmake)

tern_user_program(test_c_header tests/c/c_header.c)
target_link_libraries(test_c_header PRIVATE m)
set_target_properties(test_c_header PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_test(NAME test_c_header COMMAND test_c_header ${PROJECT_BINARY_DIR}/tests)

# A measurement, built on request: see its first lines.
tern_user_program(observer_cost bench/observer_cost.cpp)
set_target_properties(observer_cost PROPERTIES EXCLUDE_FROM_ALL ON RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
