# Third-party C++ that is linked into the programs themselves, so that they run on machines that
# have none of it: static libraries where the system has them; fmt and toml++, of which Debian has
# no static library, from their headers (src/core/third_party).
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(Eigen3 REQUIRED)

# Sets KHA_LIB_<name> to lib<name>.a, or to the shared library where there is none.
function(kha_find_library name)
  find_library(KHA_LIB_${name} NAMES lib${name}.a)
  if(NOT KHA_LIB_${name})
    find_library(KHA_SHARED_${name} NAMES ${name} REQUIRED)
    message(WARNING "There is no lib${name}.a: kha will need ${KHA_SHARED_${name}} where it runs.")
    set(KHA_LIB_${name} "${KHA_SHARED_${name}}" PARENT_SCOPE)
  endif()
endfunction()

foreach(name xxhash pcre2-8 utf8proc zstd z)
  kha_find_library(${name})
endforeach()

# The headers of the packaged targets without their shared libraries.
foreach(packaged fmt::fmt tomlplusplus::tomlplusplus)
  string(REGEX REPLACE "::.*" "" name ${packaged})
  add_library(kha_${name}_headers INTERFACE)
  foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS)
    get_target_property(value ${packaged} INTERFACE_${property})
    if(value)
      set_target_properties(kha_${name}_headers PROPERTIES INTERFACE_${property} "${value}")
    endif()
  endforeach()
endforeach()

add_library(kha_third_party INTERFACE)
target_link_libraries(kha_third_party INTERFACE nlohmann_json::nlohmann_json
  kha_tomlplusplus_headers kha_fmt_headers Eigen3::Eigen ${KHA_LIB_xxhash} ${KHA_LIB_pcre2-8}
  ${KHA_LIB_utf8proc} ${KHA_LIB_zstd} ${KHA_LIB_z})
