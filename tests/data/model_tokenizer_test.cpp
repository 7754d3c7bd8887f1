#include "kha/core/model_tokenizer.h"

#include <gmock/gmock.h>

#include "data/text_files.h"
#include "kha/core/byte_tokenizer.h"

namespace kha {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using ModelTokenizer = TextFiles;

TEST_F(ModelTokenizer, IsTheOneInTheFolder) {
  byte_tokenizer()->save(add("config.json", "{}").parent_path());
  const auto tokenizer = open_model_tokenizer(path(""), 257);
  EXPECT_EQ(tokenizer->hash(), ByteTokenizer::hash());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("knock\n")), "knock\n");
}

TEST_F(ModelTokenizer, RowsBehindTheLastIdArePadding) {
  byte_tokenizer()->save(add("config.json", "{}").parent_path());
  EXPECT_EQ(open_model_tokenizer(path(""), 320)->vocab_size(), 257);
}

TEST_F(ModelTokenizer, IdsWithoutARowAreListed) {
  byte_tokenizer()->save(add("config.json", "{}").parent_path());
  EXPECT_THAT(message_of([&] { open_model_tokenizer(path(""), 255); }),
              AllOf(HasSubstr("the tokenizer has ids for which the model has no row"),
                    HasSubstr("ids below vocab_size 255"), HasSubstr("2 ids more: 255 "),
                    HasSubstr("256 (special)"), Not(HasSubstr("…"))));
  EXPECT_THAT(message_of([&] { open_model_tokenizer(path(""), 'a'); }),
              HasSubstr("160 ids more: 97 'a', 98 'b', 99 'c', 100 'd', 101 'e', …"));
}

TEST_F(ModelTokenizer, OfAFolderWithoutOneIsBytesOrAnError) {
  add("config.json", "{}");
  EXPECT_EQ(open_model_tokenizer(path(""), 257), byte_tokenizer());
  EXPECT_THAT(message_of([&] { open_model_tokenizer(path(""), 32000); }),
              AllOf(HasSubstr("the model has no tokenizer"), HasSubstr("its 32000 ids"),
                    HasSubstr("tokenizer.json")));
}

}  // namespace
}  // namespace kha
