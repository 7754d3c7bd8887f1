#include "cli/nasty_texts.h"

namespace kha::cli {
namespace {

using namespace std::string_literals;

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace

std::vector<NamedText> nasty_texts() {
  return {
      {"empty", ""},
      {"one blank", " "},
      {"blanks", "  a   b\t\tc \t d    "},
      {"newlines", "a\n\nb\r\nc\rd \n  e\n \n\r\n\n f\n"},
      {"contractions", "I'm he'S they'LL we'Ve 'tis 'D'd don't 's\u2019s '\u017F 'x 're're"},
      {"numbers", "1 12 123 1234 1234567 3.14 1,000 \u0661\u0662\u0663\u0664 \u00BD \u2167 \u00B2"},
      {"symbols", "!!! ...?! (a) {b}[c] <d/> a_b __ $%^ -- //\n#!/\r\n \u00A9\u2122 \u20AC5"},
      {"NUL and controls", "a\0b\x01\x02\x7F\x1B[0m \0"s},
      {"byte order mark", "\uFEFFtext \uFEFF"},
      {"composed and not",
       "\u00E9 e\u0301 \u00C5 A\u030A \u212B \u1E69 s\u0323\u0307 s\u0307\u0323"},
      {"marks alone", "\u0301 \u0301\u0302a \u093F\u0915\u093F 1\u0301 .\u0301 \n\u0301"},
      {"marks of Unicode 10 to 14", "a\u1DF6\u0301 a\u0898\u0323 \u09FE\u0334 x\u1AC1\u0323"},
      {"Indic",
       "\u0928\u092E\u0938\u094D\u0924\u0947 \u0BA8\u0BBF \u0CA8\u0CCD\u0CA8 \u0D28\u0D3F"},
      {"Hangul",
       "\uD55C\uAD6D\uC5B4 \u1112\u1161\u11AB\u1100\u116E\u11A8 \uAC00\u11A8 \u1100\u1161"},
      {"CJK", "\u4E2D\u6587\u3002\u65E5\u672C\u8A9E\u3001\uFF11\uFF12\u3000x \u304C \u304B\u3099"},
      {"Arabic and Hebrew",
       "\u0645\u0631\u062D\u0628\u0627 \u0628\u0650 \u05E9\u05DC\u05D5\u05DD 12"},
      {"Thai", "\u0E2A\u0E27\u0E31\u0E2A\u0E14\u0E35 \u0E19\u0E49\u0E33"},
      {"emoji",
       "\U0001F469\u200D\U0001F4BB \U0001F44D\U0001F3FD \U0001F1E9\U0001F1EA 1\uFE0F\u20E3 "
       "\u2764\uFE0F"},
      {"other blanks", "a\u00A0b\u2003c\u2028d\u2029e\u0085f\u180Eg\u200Bh\u3000\u3000i \u00A0 j"},
      {"letters of Unicode 15 to 17",
       "\U00011F04 \U0001E4D0 \U00010D50 \uA7CB \uA7CE \U00016EA0 "
       "\U00031350 \U0002EBF0"},
      {"other planes",
       "\U0001D400\U0001D7D8 \U00020000 \U0010FFFD \uE000 \uFFFD \uFFFF \U000E0041"},
      {"case", "\u01C5 \u0130 \u00DF \u1E9E \uFB01 XMLHttpRequest camelCase ALLCAPS"},
      {"marks of other models",
       "<|endoftext|> <s></s> <unk><pad> <|im_start|>user\n<think> [INST]"},
      {"blank signs of SentencePiece", "\u2581a \u2581 \u2581\u2581b"},
      {"bytes written out", "<0x0A> <0xFF> \\n \\u0041"},
      {"long run of a letter", repeated("a", 3000)},
      {"long run of blanks", repeated(" ", 3000) + "x" + repeated("\n", 500)},
      {"long run of marks", "e" + repeated("\u0301\u0323", 300)},
      {"long number", repeated("1234567890", 100)},
  };
}

}  // namespace kha::cli
