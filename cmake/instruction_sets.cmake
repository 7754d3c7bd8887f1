# Compiles src/kernels/cpu/simd once for each instruction set, as parts of kha_kernels: one body,
# KHA_SET its namespace. The choice is made at run time (include/kha/kernels/cpu_kernels.h).
file(GLOB simd_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/cpu/simd/*.cpp)

function(kha_instruction_set name)
  add_library(kha_kernels_${name} OBJECT ${simd_sources})
  target_link_libraries(kha_kernels_${name} PRIVATE kha_options)
  target_compile_definitions(kha_kernels_${name} PRIVATE KHA_SET=${name})
  # -O3 for the loops around the tiles; nothing here may throw, and no table of unwinding is wanted.
  target_compile_options(kha_kernels_${name} PRIVATE -O3 -fno-exceptions -fno-asynchronous-unwind-tables ${ARGN})
  target_sources(kha_kernels PRIVATE $<TARGET_OBJECTS:kha_kernels_${name}>)
endfunction()

kha_instruction_set(scalar)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  kha_instruction_set(avx2 -mavx2 -mfma)
  kha_instruction_set(avx512 -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl
    -Wno-uninitialized -Wno-maybe-uninitialized)  # GCC 12 warns of its own AVX-512 headers
  target_compile_definitions(kha_kernels PRIVATE KHA_X86_SETS)
endif()
