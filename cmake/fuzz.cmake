# libFuzzer's program of all targets in tests/fuzz, over the readers of files (preset fuzz).
add_executable(kha_fuzz tests/fuzz/targets.cpp tests/fuzz/libfuzzer/driver.cpp)
target_link_libraries(kha_fuzz PRIVATE kha_core)
target_include_directories(kha_fuzz PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_options(kha_fuzz PRIVATE -fsanitize=fuzzer)
# What writes changed models is no reader: compiling it takes minutes and finds nothing.
get_target_property(core_sources kha_core SOURCES)
list(FILTER core_sources EXCLUDE REGEX "/src/core/(surgery|exchange|metrics)/")
set_target_properties(kha_core PROPERTIES SOURCES "${core_sources}")
target_precompile_headers(kha_core PRIVATE <nlohmann/json.hpp>)
