// The functions of toml++, from its headers: every other file includes declarations only.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
