# LibTorch from the torch wheel of KHA_PYTHON, linked by hand.
#
# find_package(Torch) of a CUDA wheel runs a CUDA configuration script that stops without a
# toolkit; two imported targets and the wheel's headers are all that a CPU build needs.
# CUDA tensors work through libtorch_cuda.so, which the engine opens at run time.
if(SKBUILD)
  set(KHA_PYTHON "${Python_EXECUTABLE}" CACHE FILEPATH "the Python whose torch is linked")
  set(KHA_TORCH_HINT "Install torch in it first (pip install torch) and repeat; where a build tool "
    "made an environment of its own, name the Python to install into: `pip install "
    "--no-build-isolation` from it, or --config-settings=cmake.define.KHA_PYTHON=/path/to/python.")
else()
  set(KHA_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "the Python whose torch is linked")
  set(KHA_TORCH_HINT "Run `make build`, or set KHA_PYTHON to a Python that has torch 2.11 or newer.")
endif()
string(CONCAT KHA_TORCH_HINT ${KHA_TORCH_HINT})

# Sets `root` to the folder of the torch that KHA_PYTHON sees when started with `flags`, or to "".
function(kha_find_torch root)
  execute_process(
    COMMAND "${KHA_PYTHON}" ${ARGN} -c
      "import importlib.util as u, os; s = u.find_spec('torch'); print(os.path.dirname(s.origin) if s else '')"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    set(found "")
  endif()
  set(${root} "${found}" PARENT_SCOPE)
endfunction()

kha_find_torch(KHA_TORCH_ROOT)
# pip hides the packages of the Python that it installs into behind PYTHONPATH; -E looks past that.
if(KHA_TORCH_ROOT STREQUAL "")
  kha_find_torch(KHA_TORCH_ROOT -E)
endif()
if(KHA_TORCH_ROOT STREQUAL "")
  message(FATAL_ERROR "No torch in ${KHA_PYTHON}. ${KHA_TORCH_HINT}")
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
# The wheel brings headers of its own fmt, newer than the installed library, and they are found
# first; header-only they need no library, and fmt's versioned namespace keeps the two apart.
target_compile_definitions(kha_torch INTERFACE FMT_HEADER_ONLY)
