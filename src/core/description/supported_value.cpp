#include "core/description/supported_value.h"

#include <fmt/format.h>

namespace kha {

void require_value(ObjectReader& in, const std::string& key, double expected, double absent) {
  double value = absent;
  in.read(key, value);
  if (value == expected) return;
  in.refuse(fmt::format("`{}` is not supported with this value", key),
            fmt::format("{:g}", expected),
            in.find(key) ? fmt::format("{:g}", value)
                         : fmt::format("no such key, which means {:g} to transformers", absent));
}

void require_text(ObjectReader& in, const std::string& key, const std::string& expected) {
  std::string value = expected;
  in.read(key, value);
  if (value != expected)
    in.refuse("`" + key + "` is not supported with this value", expected, value);
}

}  // namespace kha
