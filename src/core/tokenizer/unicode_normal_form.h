// NFC, NFD, NFKC and NFKD as the `tokenizers` package has them.
//
// Its tables are of Unicode 9: what came later neither decomposes nor is reordered, and so it stays
// here. Bytes that are no character stay as they are.
#pragma once

#include <string>
#include <string_view>

namespace kha {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

std::string normalise(std::string_view text, NormalForm form);
// Whether it would come out of NFC unchanged for sure; false only says that it has to be tried.
bool is_surely_nfc(std::string_view text);

}  // namespace kha
