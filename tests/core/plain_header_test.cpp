// The quick reader of headers against the thorough one: equal, or silent.
#include "core/store/plain_header.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/store_testing.h"

namespace kha {
namespace {

using namespace kha::testing;

bool equal(const SafetensorsHeader& a, const SafetensorsHeader& b) {
  const auto same = [](const TensorInfo& one, const TensorInfo& other) {
    return one.name == other.name && one.dtype == other.dtype && one.shape == other.shape &&
           one.begin == other.begin && one.end == other.end;
  };
  return a.metadata == b.metadata && std::ranges::equal(a.tensors, b.tensors, same);
}

// True where the quick reader took the text; it must then say what the thorough one says.
bool taken(const std::string& text) {
  const auto plain = scan_plain_header(text);
  if (!plain) return false;
  EXPECT_EQ(message_of([&] { read_safetensors_header(text, "file"); }), "no error") << text;
  EXPECT_TRUE(equal(*plain, read_safetensors_header(text, "file"))) << text;
  return true;
}

const std::string entry = R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})";

TEST(PlainHeader, TakesWhatProgramsWrite) {
  EXPECT_TRUE(taken("{}"));
  EXPECT_TRUE(taken("{" + entry + "}   "));
  EXPECT_TRUE(
      taken(" { \"a\" : { \"shape\" : [ ] , \"data_offsets\" : [ 0 , 4 ] ,\n\t\"dtype\" : "
            "\"F32\" } }\r\n"));
  EXPECT_TRUE(taken(R"({"__metadata__":{"format":"pt","b":""},)" + entry +
                    R"(,"b":{"dtype":"BF16","shape":[0],"data_offsets":[24,24]}})"));
  EXPECT_TRUE(taken(R"({"__metadata__":{}})"));
  EXPECT_TRUE(taken(R"({"a":{"dtype":"U8","shape":[9223372036854775807],)"
                    R"("data_offsets":[18446744073709551615,18446744073709551615]}})"));
}

// Right, but not plain: the thorough reader's.
TEST(PlainHeader, LeavesTheUnusual) {
  for (const std::string text :
       {R"({"__metadata__":null})", R"({"\u0061":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
        "{\"\xc3\xa9\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}"}) {
    EXPECT_FALSE(taken(text)) << text;
    EXPECT_EQ(message_of([&] { read_safetensors_header(text, "file"); }), "no error") << text;
  }
}

// Every header that is cut, has one character more, or one changed: never taken where it is wrong.
TEST(PlainHeader, NeverTakesWhatIsWrong) {
  const std::string whole = R"({"__metadata__":{"k":"v"},)" + entry + "}";
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(taken(whole.substr(0, i)));
    for (const char c : std::string("{}[]\",:0-1.e x\\\x01\x7f\xff")) {
      std::string changed = whole;
      changed[i] = c;
      taken(changed);
      taken(whole.substr(0, i) + c + whole.substr(i));
    }
    taken(whole.substr(0, i) + whole.substr(i + 1));
  }
  for (const std::string& wrong :
       {std::string(R"({"__metadata__":{"a":"1","a":"2"}})"),
        std::string(R"({"__metadata__":{},"__metadata__":{}})"),
        std::string(R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,04]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,18446744073709551616]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4,4]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},})")}) {
    EXPECT_FALSE(scan_plain_header(wrong)) << wrong;
    EXPECT_NE(message_of([&] { read_safetensors_header(wrong, "file"); }), "no error") << wrong;
  }
}

}  // namespace
}  // namespace kha
