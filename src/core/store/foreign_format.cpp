#include "core/store/foreign_format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/store/wording.h"

namespace kha {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  const char* name;
  const char* next;
};

constexpr const char* resave =
    "load it with the program that wrote it and save it as safetensors, or download the "
    "model's .safetensors file";
constexpr const char* wrong_file = "give the model's .safetensors file";

constexpr std::array magics{
    Magic{"PK\x03\x04"sv, "a zip archive (a PyTorch .bin or .pt file is one)", resave},
    Magic{"PK\x05\x06"sv, "an empty zip archive", resave},
    Magic{"\x80\x02"sv, "a Python pickle (an old PyTorch .bin or .pt file)", resave},
    Magic{"\x80\x03"sv, "a Python pickle", resave},
    Magic{"\x80\x04"sv, "a Python pickle", resave},
    Magic{"\x80\x05"sv, "a Python pickle", resave},
    Magic{"GGUF"sv, "a GGUF file (llama.cpp)", "give the safetensors model it was made from"},
    Magic{"\x93NUMPY"sv, "a NumPy .npy file", resave},
    Magic{"\x89HDF\r\n"sv, "an HDF5 file", resave},
    Magic{"\x1f\x8b"sv, "a gzip file", "unpack it first (gunzip)"},
    Magic{"\x28\xb5\x2f\xfd"sv, "a zstd file", "unpack it first (unzstd)"},
    Magic{"\xfd"
          "7zXZ"sv,
          "an xz file", "unpack it first (unxz)"},
    Magic{"{"sv, "a JSON file", wrong_file},
};

// A short header length, then the opening brace of the header. Tested before the magics, since the
// length of a good file may start with the same two bytes as a pickle (640 is 0x0280).
bool looks_like_safetensors(std::string_view text) {
  return text.size() > 8 && text[8] == '{' && text.substr(4, 4) == "\0\0\0\0"sv;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

std::string_view without_leading_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

std::optional<ForeignFormat> lfs_pointer(std::string_view text) {
  if (!text.starts_with("version https://git-lfs")) return std::nullopt;
  std::string name = "a git-lfs pointer, left by a clone without git-lfs";
  const std::size_t at = text.find("\nsize ");
  if (at != std::string_view::npos) {
    const std::string_view rest = text.substr(at + 6);
    name += "; the real file has " + shown(rest.substr(0, rest.find_first_of("\r\n"))) + " bytes";
  }
  return ForeignFormat{name, "fetch it inside the clone: git lfs install && git lfs pull"};
}

std::optional<ForeignFormat> web_page(std::string_view text) {
  const std::string_view start = without_leading_blanks(text);
  for (const std::string_view mark : {"<!doctype"sv, "<html"sv, "<head"sv, "<?xml"sv, "<error"sv}) {
    if (starts_with_ignoring_case(start, mark)) {
      return ForeignFormat{"a web page (HTML or XML)",
                           "the download gave an error page or needs a login; download it again"};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ForeignFormat> recognise_foreign_format(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 512));
  if (looks_like_safetensors(text)) return std::nullopt;
  if (auto found = lfs_pointer(text)) return found;
  if (auto found = web_page(text)) return found;
  for (const Magic& magic : magics) {
    if (text.starts_with(magic.bytes)) return ForeignFormat{magic.name, magic.next};
  }
  return std::nullopt;
}

}  // namespace kha
