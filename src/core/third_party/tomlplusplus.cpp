// The functions of toml++, from its headers: every other file includes declarations only.
//
// Its parser asserts what it does not check of a key ("[!model]"), which would end the program:
// here that is an exception, which run_config.cpp words.
#include <stdexcept>
#include <string>

namespace {

[[noreturn]] void fail_assertion(const char* condition) {
  throw std::logic_error(std::string("toml++: ") + condition);
}

}  // namespace

#define TOML_ASSERT(condition) (static_cast<bool>(condition) ? void(0) : fail_assertion(#condition))
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
