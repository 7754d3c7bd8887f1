# The model file for transformers (python/knocking_heads/hf_model/*_kha.py) as text in kha_core, so
# that the program can write it from wherever it is installed. Run by the build as a script with
# FILES (a list) and OUT, included by CMakeLists.txt without them.
if(CMAKE_SCRIPT_MODE_FILE)
  set(parts "")
  foreach(file IN LISTS FILES)
    get_filename_component(name "${file}" NAME)
    file(READ "${file}" text)
    string(APPEND parts "    {\"${name}\", R\"part(${text})part\"},\n")
  endforeach()
  file(WRITE "${OUT}" "#include \"core/exchange/model_file.h\"\n\nnamespace kha {\n\n"
    "const std::vector<ModelFilePart>& model_file_parts() {\n"
    "  static const std::vector<ModelFilePart> parts{\n${parts}  };\n  return parts;\n}\n\n"
    "}  // namespace kha\n")
  return()
endif()

file(GLOB KHA_MODEL_FILE CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/knocking_heads/hf_model/*_kha.py)
set(KHA_MODEL_FILE_CPP ${CMAKE_BINARY_DIR}/generated/model_file_parts.cpp)
add_custom_command(OUTPUT ${KHA_MODEL_FILE_CPP} VERBATIM
  DEPENDS ${KHA_MODEL_FILE} ${CMAKE_SOURCE_DIR}/cmake/model_file.cmake
  COMMAND ${CMAKE_COMMAND} -D "FILES=${KHA_MODEL_FILE}" -D OUT=${KHA_MODEL_FILE_CPP}
    -P ${CMAKE_SOURCE_DIR}/cmake/model_file.cmake)
target_sources(kha_core PRIVATE ${KHA_MODEL_FILE_CPP})
