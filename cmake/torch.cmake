# LibTorch from the torch wheel of KHA_PYTHON, linked by hand.
#
# find_package(Torch) of a CUDA wheel runs a CUDA configuration script that stops without a
# toolkit; two imported targets and the wheel's headers are all that a CPU build needs.
# CUDA tensors work through libtorch_cuda.so, which the engine opens at run time.
set(KHA_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "the Python whose torch is linked")

execute_process(
  COMMAND "${KHA_PYTHON}" -c
    "import importlib.util as u, os; s = u.find_spec('torch'); print(os.path.dirname(s.origin) if s else '')"
  OUTPUT_VARIABLE KHA_TORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
if(NOT result EQUAL 0 OR KHA_TORCH_ROOT STREQUAL "")
  message(FATAL_ERROR "No torch in ${KHA_PYTHON}. Run `make build`, or set KHA_PYTHON to a Python that has torch 2.11 or newer.")
endif()

file(READ "${KHA_TORCH_ROOT}/version.py" version_text)
string(REGEX MATCH "__version__ = '([^']+)'" unused "${version_text}")
set(KHA_TORCH_VERSION "${CMAKE_MATCH_1}")
if(KHA_TORCH_VERSION VERSION_LESS "2.11.0")
  message(FATAL_ERROR "torch ${KHA_TORCH_VERSION} at ${KHA_TORCH_ROOT} is too old: 2.11.0 or newer is needed.")
endif()
message(STATUS "torch ${KHA_TORCH_VERSION} at ${KHA_TORCH_ROOT}")

foreach(part c10 torch_cpu)
  add_library(kha_${part} SHARED IMPORTED)
  set_target_properties(kha_${part} PROPERTIES
    IMPORTED_LOCATION "${KHA_TORCH_ROOT}/lib/lib${part}.so" IMPORTED_NO_SONAME TRUE)
  target_include_directories(kha_${part} SYSTEM INTERFACE
    "${KHA_TORCH_ROOT}/include" "${KHA_TORCH_ROOT}/include/torch/csrc/api/include")
endforeach()

add_library(kha_torch INTERFACE)
target_link_libraries(kha_torch INTERFACE kha_torch_cpu kha_c10)
target_link_options(kha_torch INTERFACE "LINKER:-rpath,${KHA_TORCH_ROOT}/lib")
# The wheel brings headers of its own fmt, newer than the installed library, and they are found
# first; header-only they need no library, and fmt's versioned namespace keeps the two apart.
target_compile_definitions(kha_torch INTERFACE FMT_HEADER_ONLY)
