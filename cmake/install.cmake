# Install rules. The prefix is a Python's (`make build` takes .venv): programs and companions in
# bin, the operator library in lib, the package in that Python's own site folder.
execute_process(
  COMMAND "${KHA_PYTHON}" -c
    "import os, sys, sysconfig; print(os.path.relpath(sysconfig.get_path('purelib'), sys.prefix))"
  OUTPUT_VARIABLE KHA_SITE OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

# The rpath to torch is in the link options of kha_torch.
foreach(target kha kha-engine kha_ops)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
    install(TARGETS ${target} RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
  endif()
endforeach()

install(DIRECTORY python/knocking_heads DESTINATION "${KHA_SITE}" FILES_MATCHING PATTERN "*.py"
  PATTERN "*.css" PATTERN "__pycache__" EXCLUDE)

# `kha NAME` runs kha-NAME beside it: one launcher for each module that is a program.
foreach(KHA_COMPANION curves hf_peer parquet report tokenizer_peer)
  string(REPLACE "_" "-" KHA_NAME "${KHA_COMPANION}")  # of the program
  configure_file(python/companions/companion.in "${CMAKE_BINARY_DIR}/companions/kha-${KHA_NAME}" @ONLY)
  install(PROGRAMS "${CMAKE_BINARY_DIR}/companions/kha-${KHA_NAME}" DESTINATION bin)
endforeach()
