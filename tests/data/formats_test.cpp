// Documents from lines, packed files and files of ids.
#include <gmock/gmock.h>

#include <map>

#include "data/packed_files.h"
#include "data/pair_tokenizer.h"
#include "data/text_files.h"
#include "kha/core/byte_tokenizer.h"
#include "kha/core/corpus.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class FormatsTest : public TextFiles {
 protected:
  CorpusOptions options(std::vector<std::string> names) const {
    CorpusOptions options;
    for (const auto& name : names) options.text.paths.push_back(path(name));
    options.validation_share = 0;
    options.cache_dir = path("cache");
    options.context = 1;
    return options;
  }

  Corpus prepare(const std::string& name, std::string_view contents) const {
    add(name, contents);
    return prepare_corpus(options({name}));
  }

  std::string refusal(const CorpusOptions& options) const {
    return message_of([&] { prepare_corpus(options); });
  }

  std::string refusal(const std::string& name, std::string_view contents) const {
    add(name, contents);
    return refusal(options({name}));
  }
};

std::vector<std::int64_t> ids_of(const TokenShard& shard, std::int64_t document) {
  const std::int64_t begin = shard.document_begin(document);
  std::vector<std::int64_t> ids(shard.document_end(document) - begin);
  shard.copy(begin, static_cast<std::int64_t>(ids.size()), ids.data());
  return ids;
}

std::vector<std::string> texts(const TokenShard& shard) {
  std::vector<std::string> result;
  for (std::int64_t i = 0; i < shard.documents(); ++i) {
    result.push_back(ByteTokenizer::decode(ids_of(shard, i)));
  }
  return result;
}

constexpr const char* three_lines =
    "{\"text\": \"one\"}\n{\"id\": 7, \"text\": \"t\\u00e4\\nwo\", \"x\": "
    "[{}]}\r\n{\"text\":\"3\"}";

TEST_F(FormatsTest, EachLineIsADocument) {
  const Corpus corpus = prepare("a.jsonl", three_lines);
  EXPECT_THAT(texts(corpus.train), ElementsAre("one", "t\xc3\xa4\nwo", "3"));
  EXPECT_EQ(corpus.summary.train.documents, 3);
  EXPECT_EQ(corpus.summary.train.bytes, 3 + 6 + 1);
}

TEST_F(FormatsTest, PackedFilesGiveTheSameDocuments) {
  for (const auto& [name, packed] :
       {std::pair{"a.jsonl.gz", gzip(three_lines)}, std::pair{"a.jsonl.zst", zstd(three_lines)}}) {
    EXPECT_THAT(texts(prepare(name, packed).train), ElementsAre("one", "t\xc3\xa4\nwo", "3"));
    EXPECT_THAT(refusal(name, packed.substr(0, packed.size() / 2)),
                AllOf(HasSubstr("is cut"), HasSubstr(name)));
  }
  EXPECT_THAT(texts(prepare("a.txt.gz", gzip("a text")).train), ElementsAre("a text"));
  EXPECT_THAT(texts(prepare("a.txt.zst", zstd("a text")).train), ElementsAre("a text"));
}

TEST_F(FormatsTest, DocumentsWithoutTextAreSkippedAndCounted) {
  const Corpus corpus = prepare("a.jsonl",
                                "{\"text\": \"\"}\n{\"text\": \" \\n\\t\"}\n{\"text\": null}\n\n"
                                "{\"text\": \"good\"}\n");
  EXPECT_THAT(texts(corpus.train), ElementsAre("good"));
  EXPECT_EQ(corpus.summary.empty_documents, 4);
  EXPECT_THAT(read_file(corpus.summary.folder / "summary.json"),
              HasSubstr("\"empty_documents\": 4"));
  EXPECT_EQ(prepare_corpus(options({"a.jsonl"})).summary.empty_documents, 4);
}

TEST_F(FormatsTest, ABadLineIsNamedWithItsPlace) {
  const std::string good = "{\"text\": \"good\"}\n";  // 17 bytes
  EXPECT_THAT(refusal("a.jsonl", good + "{\"text\": \"x\",}\n" + good),
              AllOf(HasSubstr("the line is not JSON"), HasSubstr("a.jsonl, line 2, byte 30"),
                    HasSubstr("data.bad_lines=10")));
  EXPECT_THAT(refusal("a.jsonl", good + good + "{\"t\": 1, \"body\": \"x\"}\n"),
              AllOf(HasSubstr("no key `text`"), HasSubstr("line 3, byte 34"),
                    HasSubstr("found:    body, t")));
  EXPECT_THAT(refusal("a.jsonl", "{\"text\": 12}"),
              AllOf(HasSubstr("`text` is not a text"), HasSubstr("type number")));
  EXPECT_THAT(refusal("a.jsonl", "[1]"),
              AllOf(HasSubstr("not a JSON object"), HasSubstr("type array")));
  EXPECT_THAT(refusal("a.jsonl", "{\"text\": \"\xff\"}"),
              AllOf(HasSubstr("not UTF-8"), HasSubstr("byte 10")));
  EXPECT_THAT(refusal("a.jsonl.gz", gzip(good + "no")), HasSubstr("byte 18 of the unpacked file"));
}

TEST_F(FormatsTest, BadLinesAreSkippedUpToTheirNumber) {
  std::string lines;
  for (int i = 0; i < 5; ++i) lines += "{\"text\": \"good\"}\nbad line\n";
  add("a.jsonl", lines);
  CorpusOptions skipping = options({"a.jsonl"});
  skipping.most_bad_lines = 4;
  EXPECT_THAT(refusal(skipping),
              AllOf(HasSubstr("line 10"), HasSubstr("more than 4 lines"), HasSubstr("=40")));
  skipping.most_bad_lines = 5;
  const Corpus corpus = prepare_corpus(skipping);
  EXPECT_EQ(corpus.train.documents(), 5);
  EXPECT_EQ(corpus.summary.bad_lines.count, 5);
  ASSERT_EQ(corpus.summary.bad_lines.first.size(), 3u);
  EXPECT_THAT(corpus.summary.bad_lines.first[0].where, HasSubstr("line 2"));
  // Shards made with a larger number do not hide the lines from a smaller one.
  skipping.most_bad_lines = 0;
  EXPECT_THAT(refusal(skipping), HasSubstr("not JSON"));
}

TEST_F(FormatsTest, ALineOverTheLimitIsBad) {
  const std::string huge = "{\"text\": \"" + std::string(33 << 20, 'x') + "\"}\n";
  add("a.jsonl", huge + "{\"text\": \"good\"}\n");
  EXPECT_THAT(refusal(options({"a.jsonl"})),
              AllOf(HasSubstr("too long"), HasSubstr("33554432 bytes"), HasSubstr("line 1")));
  CorpusOptions skipping = options({"a.jsonl"});
  skipping.most_bad_lines = 1;
  EXPECT_THAT(texts(prepare_corpus(skipping).train), ElementsAre("good"));
}

TEST_F(FormatsTest, ALineOfManyMegabytesIsOneDocument) {
  const std::string text(9 << 20, 'y');
  const Corpus corpus = prepare("a.jsonl", "{\"text\": \"" + text + "\"}\n{\"text\": \"z\"}\n");
  EXPECT_THAT(texts(corpus.train), ElementsAre(text, "z"));
}

TEST_F(FormatsTest, LinesAreHeldOutByPathAndLine) {
  const auto sides = [&] {
    CorpusOptions half = options({"t"});
    half.validation_share = 0.5;
    const Corpus corpus = prepare_corpus(half);
    std::map<std::string, bool> result;
    for (const auto& text : texts(corpus.train)) result[text] = false;
    for (const auto& text : texts(*corpus.validation)) result[text] = true;
    return result;
  };
  const auto lines = [](const std::string& name, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += "{\"text\": \"" + name + std::to_string(i) + "\"}\n";
    }
    return text;
  };
  add("t/b.jsonl", lines("b", 40));
  const auto before = sides();
  EXPECT_EQ(before.size(), 40u);
  const auto held_out = std::ranges::count_if(before, [](const auto& each) { return each.second; });
  EXPECT_GT(held_out, 8);  // 20 expected, standard deviation 3.2
  EXPECT_LT(held_out, 32);
  add("t/a.jsonl", lines("a", 40));
  add("t/b.jsonl", lines("b", 60));
  const auto after = sides();
  EXPECT_EQ(after.size(), 100u);
  for (const auto& [text, side] : before) EXPECT_EQ(after.at(text), side) << text;
}

TEST_F(FormatsTest, PromptsAreNotLearned) {
  add("a.jsonl",
      "{\"q\": \"aab\", \"a\": \"bb\"}\n{\"q\": null, \"a\": \"x\"}\n{\"q\": \"y\", \"a\": "
      "\"\"}\n");
  CorpusOptions pairs = options({"a.jsonl"});
  pairs.tokenizer = std::make_shared<PairTokenizer>();
  pairs.keys = {.prompt = "q", .answer = "a"};
  const Corpus corpus = prepare_corpus(pairs);
  ASSERT_EQ(corpus.train.documents(), 2);
  // The two b at the border stay apart.
  EXPECT_THAT(ids_of(corpus.train, 0), ElementsAre(256 + 'a', 'b', 256 + 'b', 599));
  EXPECT_EQ(corpus.train.prompt_tokens(0), 2);
  EXPECT_EQ(corpus.train.prompt_tokens(1), 0);
  EXPECT_EQ(corpus.summary.empty_documents, 1);
  pairs.keys.answer.clear();
  EXPECT_THAT(refusal(pairs), AllOf(HasSubstr("data.answer_key is not"), HasSubstr("`q` alone")));
}

template <class Id>
std::string raw(const std::vector<Id>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id)};
}

TEST_F(FormatsTest, RawIdsNeedTheirWidth) {
  EXPECT_THAT(
      refusal("a.bin", raw<std::uint16_t>({1, 2, 256, 300})),
      AllOf(HasSubstr("width of raw token ids"), HasSubstr("data.raw_type"), HasSubstr("uint32")));
  for (const char* type : {"uint16", "uint32"}) {
    const bool wide = std::string(type) == "uint32";
    add("a.bin", wide ? raw<std::uint32_t>({1, 2, 256, 3, 256, 256, 4, 5})
                      : raw<std::uint16_t>({1, 2, 256, 3, 256, 256, 4, 5}));
    CorpusOptions with_type = options({"a.bin"});
    with_type.raw_type = type;
    const Corpus corpus = prepare_corpus(with_type);
    ASSERT_EQ(corpus.train.documents(), 4);
    EXPECT_THAT(ids_of(corpus.train, 0), ElementsAre(1, 2, 256));
    EXPECT_THAT(ids_of(corpus.train, 2), ElementsAre(256));
    EXPECT_THAT(ids_of(corpus.train, 3), ElementsAre(4, 5));  // as it stands, without an end mark
    EXPECT_EQ(corpus.summary.train.bytes, 5);
  }
}

TEST_F(FormatsTest, InFoldersBinFilesAreIdsOnlyWhereTheyAreAskedFor) {
  add("t/a.bin", raw<std::uint16_t>({1, 2, 256}));
  add("t/b.txt", "text");
  const Corpus text = prepare_corpus(options({"t"}));
  EXPECT_THAT(texts(text.train), ElementsAre("text"));
  EXPECT_EQ(text.summary.skipped.binary, 1);
  CorpusOptions asked = options({"t"});
  asked.text.extensions = {"bin"};
  asked.raw_type = "uint16";
  EXPECT_THAT(ids_of(prepare_corpus(asked).train, 0), ElementsAre(1, 2, 256));
}

TEST_F(FormatsTest, RawIdsOfAnotherWidthAreRefused) {
  std::vector<std::uint32_t> ids(500);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i * 7 % 250;
  CorpusOptions narrow = options({"a.bin"});
  narrow.raw_type = "uint16";
  add("a.bin", raw(ids));
  EXPECT_THAT(refusal(narrow), AllOf(HasSubstr("four bytes wide"), HasSubstr("raw_type=uint32")));
  CorpusOptions wide = options({"a.bin"});
  wide.raw_type = "uint32";
  add("a.bin", raw(std::vector<std::uint16_t>(500, 200)));
  EXPECT_THAT(refusal(wide), AllOf(HasSubstr("outside the vocabulary"), HasSubstr("byte 0"),
                                   HasSubstr("id 13107400"), HasSubstr("vocabulary size 257")));
  add("a.bin", raw(std::vector<std::uint16_t>(501, 200)));
  EXPECT_THAT(refusal(wide), AllOf(HasSubstr("whole ids"), HasSubstr("1002 bytes")));
}

TEST_F(FormatsTest, AnotherFormUnderTheNameOfRawIdsIsRefused) {
  CorpusOptions narrow = options({"a.bin"});
  narrow.raw_type = "uint16";
  add("a.bin", std::string("\x93NUMPY\1\0", 8) + raw<std::uint16_t>({1, 2, 3, 4}));
  EXPECT_THAT(refusal(narrow), AllOf(HasSubstr("not raw token ids"), HasSubstr(".npy")));
  add("a.bin", "PAR1....");
  EXPECT_THAT(refusal(narrow), HasSubstr("Parquet"));
}

TEST_F(FormatsTest, AnIdOutsideTheVocabularyIsNamedWhereverItStands) {
  std::vector<std::uint16_t> ids(10000, 65);
  ids[5000] = 257;
  add("a.bin", raw(ids));
  CorpusOptions narrow = options({"a.bin"});
  narrow.raw_type = "uint16";
  EXPECT_THAT(refusal(narrow), AllOf(HasSubstr("outside the vocabulary"),
                                     HasSubstr("a.bin, byte 10000"), HasSubstr("token 5000"),
                                     HasSubstr("id 257"), HasSubstr("vocabulary size 257")));
}

TEST_F(FormatsTest, ShardsAreTakenAsTheyAre) {
  const auto write = [&](std::uint64_t tokenizer, std::int64_t tokens) {
    TokenShardWriter writer(path("a.tokens"), {.vocab_size = 257, .tokenizer_hash = tokenizer});
    for (const std::int64_t length : {std::int64_t{3}, tokens, std::int64_t{4}}) {
      writer.write(std::vector<std::int64_t>(static_cast<std::size_t>(length), 65));
      writer.end_document(1);
    }
    writer.finish();
  };
  write(ByteTokenizer::hash(), 700'000);
  const Corpus corpus = prepare_corpus(options({"a.tokens"}));
  ASSERT_EQ(corpus.train.documents(), 3);
  EXPECT_EQ(corpus.train.document_end(1), 700'003);
  EXPECT_EQ(corpus.train.tokens(), 700'007);
  EXPECT_EQ(corpus.train.prompt_tokens(1), 1);
  write(99, 5);
  EXPECT_THAT(refusal(options({"a.tokens"})), HasSubstr("another tokenizer"));
}

// Length and offsets of every document are right when one has more tokens than 16 bits can count.
TEST_F(FormatsTest, ALongDocumentAmongShortOnesKeepsItsBorders) {
  const std::string large(65536, 'k');
  const Corpus corpus =
      prepare("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"" + large + "\"}\n{\"text\": \"b\"}\n");
  ASSERT_EQ(corpus.train.documents(), 3);
  EXPECT_EQ(corpus.train.document_begin(1), 2);
  EXPECT_EQ(corpus.train.document_end(1), 2 + 65537);
  EXPECT_EQ(corpus.train.document_end(2), 2 + 65537 + 2);
}

TEST_F(FormatsTest, ParquetWithoutItsReaderSaysWhatToDo) {
  EXPECT_THAT(refusal("a.parquet", "PAR1...."),
              AllOf(HasSubstr("kha-parquet"), HasSubstr("a.parquet"), HasSubstr(".jsonl")));
}

}  // namespace
}  // namespace kha
