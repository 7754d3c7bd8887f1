// A quick reader of safetensors headers in the spelling that programs write.
#pragma once

#include <optional>
#include <string_view>

#include "core/store/safetensors_header.h"

namespace kha {

// The header, where it is right and plain: ASCII without escapes, whole decimal numbers. Nothing
// for any other text, right or wrong; the thorough reader judges that and words the errors. A
// tensor's name may stand here twice: whoever makes a table of the names sees it, and asks the
// thorough reader. 10,000 tensors take this one a small part of the thorough one's time.
std::optional<SafetensorsHeader> scan_plain_header(std::string_view text);

}  // namespace kha
