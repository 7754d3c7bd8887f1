# Run by every build: writes ${OUT}, a header with the commit that is built, when it changed.
execute_process(COMMAND git describe --always --dirty --abbrev=10 --exclude=*
  WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${OUT}" CONTENT "#define KHA_COMMIT \"${commit}\"\n")
