// The refusal of a value that makes no model.
#pragma once

#include <fmt/format.h>

#include <string>

#include "kha/core/error.h"

namespace kha {

// Fails where a value is not `good`: "`key` does not make a model". `of` is what the key belongs to
// ("rotary scaling: "), empty for one of config.json itself.
inline void require(bool good, const std::string& where, const std::string& key,
                    const std::string& found, const std::string& expected,
                    const std::string& of = "") {
  if (good) return;
  fail({.what = fmt::format("{}`{}` does not make a model", of, key),
        .where = where,
        .expected = expected,
        .found = found});
}

}  // namespace kha
