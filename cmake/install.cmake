# Install rules of two layouts. `cmake --install` takes the prefix of a Python (`make build`: .venv):
# programs and companions in bin, the operator library in lib, the package in that Python's own site
# folder. The components wheel and wheel_scripts are what a wheel carries (pyproject.toml): the
# package with library and engine inside, found from each other and from torch by relative paths.
execute_process(
  COMMAND "${KHA_PYTHON}" -c
    "import os, sys, sysconfig; print(os.path.relpath(sysconfig.get_path('purelib'), sys.prefix))"
  OUTPUT_VARIABLE KHA_SITE OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(KHA_INSTALL_RPATH "$ORIGIN/../lib:${KHA_TORCH_ROOT}/lib")
set(KHA_WHEEL_RPATH "$ORIGIN/../lib:$ORIGIN/../../torch/lib")  # torch beside the package

# What the library was built with, beside the library (python/knocking_heads/fit.py compares).
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("#include <string>
#if !_GLIBCXX_USE_CXX11_ABI
#error the older one
#endif
int main() {}" KHA_CXX11_ABI)
set(KHA_CXX11_ABI_JSON $<IF:$<BOOL:${KHA_CXX11_ABI}>,true,false>)
file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/libkha_ops.json" CONTENT
  "{\"kha\": \"${PROJECT_VERSION}\", \"torch\": \"${KHA_TORCH_VERSION}\", \"cxx11_abi\": ${KHA_CXX11_ABI_JSON}}\n")

# kha_install_package(SITE LIB ENGINE [COMPONENT NAME...])
function(kha_install_package site lib engine)
  install(DIRECTORY python/knocking_heads DESTINATION "${site}" ${ARGN}
    PATTERN "__pycache__" EXCLUDE PATTERN ".*" EXCLUDE)
  install(TARGETS kha_ops LIBRARY DESTINATION "${lib}" ${ARGN})
  install(FILES "${CMAKE_BINARY_DIR}/libkha_ops.json" DESTINATION "${lib}" ${ARGN})
  install(TARGETS kha-engine RUNTIME DESTINATION "${engine}" ${ARGN})
endfunction()

set_target_properties(kha_ops kha-engine PROPERTIES INSTALL_RPATH "${KHA_INSTALL_RPATH}")
kha_install_package("${KHA_SITE}" lib bin)
install(TARGETS kha RUNTIME DESTINATION bin)

# `kha NAME` runs kha-NAME beside it: one launcher for each module that is a program. In a wheel
# they are entry points, project.scripts of pyproject.toml.
foreach(KHA_COMPANION curves gguf_export gguf_peer harness hf_peer parquet report tokenizer_peer)
  string(REPLACE "_" "-" KHA_NAME "${KHA_COMPANION}")  # of the program
  configure_file(python/companions/companion.in "${CMAKE_BINARY_DIR}/companions/kha-${KHA_NAME}" @ONLY)
  install(PROGRAMS "${CMAKE_BINARY_DIR}/companions/kha-${KHA_NAME}" DESTINATION bin)
endforeach()

# Below the site folder of a wheel, and its scripts.
set(KHA_PACKAGE knocking_heads)
kha_install_package(. ${KHA_PACKAGE}/lib ${KHA_PACKAGE}/bin COMPONENT wheel EXCLUDE_FROM_ALL)
install(FILES python/companions/knocking_heads_programs.py DESTINATION . COMPONENT wheel EXCLUDE_FROM_ALL)
foreach(file lib/libkha_ops.so bin/kha-engine)
  install(CODE "file(RPATH_CHANGE FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${KHA_PACKAGE}/${file}\"
    OLD_RPATH \"${KHA_INSTALL_RPATH}\" NEW_RPATH \"${KHA_WHEEL_RPATH}\")"
    COMPONENT wheel EXCLUDE_FROM_ALL)
endforeach()
set(KHA_WHEEL_SCRIPTS .)
if(SKBUILD)
  set(KHA_WHEEL_SCRIPTS "${SKBUILD_SCRIPTS_DIR}")
endif()
install(TARGETS kha RUNTIME DESTINATION "${KHA_WHEEL_SCRIPTS}" COMPONENT wheel_scripts EXCLUDE_FROM_ALL)
