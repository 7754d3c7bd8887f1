#include "kha/core/corpus.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/data/preparation.h"
#include "data/pair_tokenizer.h"
#include "data/text_files.h"
#include "kha/core/byte_tokenizer.h"

namespace kha {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string decode(const TokenShard& shard, std::int64_t document) {
  std::vector<std::int64_t> ids(shard.document_end(document) - shard.document_begin(document));
  shard.copy(shard.document_begin(document), static_cast<std::int64_t>(ids.size()), ids.data());
  EXPECT_EQ(ids.back(), ByteTokenizer::end_id);
  return ByteTokenizer::decode(ids);
}

class CorpusTest : public TextFiles {
 protected:
  CorpusOptions options(double share, std::int64_t context = 16) const {
    return {.text = {.paths = {path("text")}, .extensions = {}},
            .validation_share = share,
            .split_seed = 5,
            .cache_dir = path("cache"),
            .expected_fingerprint = "",
            .context = context};
  }

  void add_documents(int first, int last) const {
    for (int i = first; i < last; ++i) add(name(i), text(i));
  }
  static std::string name(int i) { return "text/" + std::to_string(i) + ".txt"; }
  static std::string text(int i) { return "This is the sentence of file " + std::to_string(i); }

  std::string refusal(const CorpusOptions& options) const {
    return message_of([&] { prepare_corpus(options); });
  }
};

// Text of every document, and whether it is held out.
std::map<std::string, bool> sides(const Corpus& corpus) {
  std::map<std::string, bool> result;
  for (std::int64_t i = 0; i < corpus.train.documents(); ++i) {
    result[decode(corpus.train, i)] = false;
  }
  if (!corpus.validation) return result;
  for (std::int64_t i = 0; i < corpus.validation->documents(); ++i) {
    result[decode(*corpus.validation, i)] = true;
  }
  return result;
}

TEST_F(CorpusTest, HoldsEveryDocumentOnOneSide) {
  add_documents(0, 100);
  const Corpus corpus = prepare_corpus(options(0.2));
  const auto result = sides(corpus);
  EXPECT_EQ(result.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(result.contains(text(i)));
  const CorpusSummary& summary = corpus.summary;
  EXPECT_EQ(summary.train.documents + summary.validation.documents, 100);
  EXPECT_GT(summary.validation.documents, 8);  // 20 expected, standard deviation 4
  EXPECT_LT(summary.validation.documents, 32);
  EXPECT_EQ(summary.train.tokens, corpus.train.tokens());
  EXPECT_EQ(summary.train.tokens, summary.train.bytes + summary.train.documents);
  EXPECT_EQ(summary.validation.tokens, corpus.validation->tokens());
}

TEST_F(CorpusTest, AddingFilesMovesNoOtherDocument) {
  add_documents(0, 50);
  const auto before = sides(prepare_corpus(options(0.3)));
  add_documents(50, 80);
  const auto after = sides(prepare_corpus(options(0.3)));
  for (const auto& [document, held_out] : before) EXPECT_EQ(after.at(document), held_out);
  EXPECT_EQ(after.size(), 80u);
}

TEST_F(CorpusTest, ALargerShareOnlyAddsHeldOutDocuments) {
  add_documents(0, 50);
  const auto small = sides(prepare_corpus(options(0.3)));
  const auto large = sides(prepare_corpus(options(0.6)));
  for (const auto& [document, held_out] : small) EXPECT_TRUE(!held_out || large.at(document));
  CorpusOptions other = options(0.3);
  other.split_seed = 6;
  EXPECT_NE(sides(prepare_corpus(other)), small);
}

TEST_F(CorpusTest, WithoutAShareThereIsNoValidation) {
  add_documents(0, 1);
  const Corpus corpus = prepare_corpus(options(0));
  EXPECT_FALSE(corpus.validation.has_value());
  EXPECT_EQ(decode(corpus.train, 0), text(0));
  EXPECT_TRUE(prepare_corpus(options(0)).summary.reused);
}

TEST_F(CorpusTest, ShortDocumentsArePackedAndTheWholeMustFillOneWindow) {
  add_documents(0, 20);
  EXPECT_GE(prepare_corpus(options(0.5, 256)).train.tokens(), 257);
  EXPECT_THAT(refusal(options(0.5, 4096)),
              AllOf(HasSubstr("whole text is shorter than one window"), HasSubstr("4097 tokens"),
                    HasSubstr("630 tokens in 20 documents"), HasSubstr("629 or less")));
}

TEST_F(CorpusTest, RefusesASplitUnderOneWindow) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += text(i) + "\n";
  add(name(0), lines);
  EXPECT_THAT(refusal(options(0.01)),
              AllOf(HasSubstr("validation split is too small"), HasSubstr("share 0.01"),
                    HasSubstr("split seed 5"), HasSubstr("at least 17 tokens"),
                    HasSubstr("0 tokens in 0 of 1 documents"), HasSubstr("into several files")));
  add_documents(1, 40);
  EXPECT_THAT(refusal(options(0.01, 256)),
              AllOf(HasSubstr("validation split"), HasSubstr("at least 257"), HasSubstr("of 40"),
                    HasSubstr("raise the validation share")));
  EXPECT_THAT(refusal(options(0.999)),
              AllOf(HasSubstr("training split"), HasSubstr("lower the validation share")));
}

TEST_F(CorpusTest, RefusesAShareOutsideZeroToOne) {
  add_documents(0, 3);
  EXPECT_THAT(refusal(options(5)), AllOf(HasSubstr("validation share"), HasSubstr("write 0.05")));
  EXPECT_THAT(refusal(options(-0.1)), HasSubstr("found:    -0.1"));
  EXPECT_THAT(refusal(options(std::nan(""))), HasSubstr("nan"));
}

// What a document becomes is known only when it is tokenised.
TEST_F(CorpusTest, AnyTokenizerMayPrepare) {
  for (const std::int64_t vocab : {std::int64_t{600}, std::int64_t{70000}}) {
    const PairTokenizer pairs(vocab);
    add("text/a.txt", "aabb");
    add("text/b.txt", "~~~");
    add("text/c.txt", std::string(2 * 65536, 'c') + "d");
    add("text/d.txt", "xyz");
    CorpusOptions with_pairs = options(0);
    with_pairs.tokenizer = std::make_shared<PairTokenizer>(vocab);
    const Corpus corpus = prepare_corpus(with_pairs);
    const TokenShard& shard = corpus.train;
    ASSERT_EQ(shard.documents(), 3);
    EXPECT_EQ(shard.id_width(), vocab > 65536 ? 4 : 2);
    EXPECT_EQ(shard.document_end(0), 3);  // aa bb end
    EXPECT_EQ(shard.document_end(1), 3 + 65538);
    EXPECT_EQ(shard.document_end(2), 3 + 65538 + 4);
    EXPECT_EQ(shard.token(2), vocab - 1);
    EXPECT_EQ(shard.token(0), 256 + 'a');
    EXPECT_EQ(corpus.summary.empty_documents, 1);
    EXPECT_EQ(corpus.summary.train.bytes, 4 + 3 + 131073 + 3);
    EXPECT_EQ(corpus.summary.train.tokens, shard.tokens());
    shard.check_checksum();
    fs::remove_all(path("cache"));
  }
}

TEST_F(CorpusTest, AnotherTokenizerIsAnotherCache) {
  add_documents(0, 50);
  CorpusOptions with_pairs = options(0.3);
  with_pairs.tokenizer = std::make_shared<PairTokenizer>();
  EXPECT_NE(prepare_corpus(with_pairs).summary.folder, prepare_corpus(options(0.3)).summary.folder);
}

// Documents beyond what is tokenised at once are cut where a line ends, and stay one document.
TEST_F(CorpusTest, LongDocumentsAreOneDocument) {
  std::string large;
  for (int i = 0; large.size() < 9'500'000; ++i) large += text(i) + "\n";
  add("text/a.txt", "before");
  add("text/b.txt", large);
  add("text/c.txt", "behind");
  const Corpus bytes = prepare_corpus(options(0));
  ASSERT_EQ(bytes.train.documents(), 3);
  EXPECT_EQ(decode(bytes.train, 1), large);
  EXPECT_EQ(decode(bytes.train, 2), "behind");
  CorpusOptions with_pairs = options(0);
  with_pairs.tokenizer = std::make_shared<PairTokenizer>();
  const Corpus pairs = prepare_corpus(with_pairs);
  EXPECT_EQ(pairs.train.document_end(1) - pairs.train.document_begin(1),
            static_cast<std::int64_t>(PairTokenizer().encode(large).size()) + 1);
}

// Several parts, with short documents and one that reaches over three parts.
class PartsTest : public CorpusTest {
 protected:
  PartsTest() {
    part_size = std::size_t{2} << 20;
    std::string line;
    for (int i = 0; i < 400; ++i) line += "some words of text " + std::to_string(i * 7) + " ";
    std::string lines;
    for (int i = 0; i < 600; ++i) lines += "{\"text\": \"" + line + std::to_string(i) + "\"}\n";
    add("text/a.jsonl", lines);
    add("text/b.txt", lines);  // one document
    add("text/c.txt", "the end");
  }

  ~PartsTest() override { part_size = before_; }

  CorpusOptions with(unsigned threads, const std::string& cache) const {
    CorpusOptions result = options(0.2);
    result.tokenizer = std::make_shared<PairTokenizer>();
    result.threads = threads;
    result.cache_dir = path(cache);
    return result;
  }

  // Both shards of a folder, by their checksums.
  static std::vector<FileReport> bytes_of(const Corpus& corpus) {
    return {report_file(corpus.summary.folder / "train.tokens"),
            report_file(corpus.summary.folder / "validation.tokens")};
  }

 private:
  std::size_t before_ = part_size;
};

TEST_F(PartsTest, AnyNumberOfThreadsGivesTheSameBytes) {
  const Corpus one = prepare_corpus(with(1, "one")), three = prepare_corpus(with(3, "three"));
  EXPECT_EQ(bytes_of(one), bytes_of(three));
  EXPECT_EQ(one.summary.train, three.summary.train);
  EXPECT_EQ(one.summary.train.documents + one.summary.validation.documents, 602);
  EXPECT_FALSE(fs::exists(one.summary.folder / "parts"));
}

TEST_F(PartsTest, AKillAtAnyMomentGoesOnToTheSameBytes) {
  const auto whole = bytes_of(prepare_corpus(with(2, "whole")));
  for (const char* point : {"data-part-0-unrecorded", "data-part-0", "data-part-2",
                            "data-part-3-unrecorded", "data-unfinished", "data-finished"}) {
    fs::remove_all(path("cut"));
    EXPECT_EXIT(
        {
          ::setenv("KHA_FAIL_POINT", point, 1);
          prepare_corpus(with(2, "cut"));
          ::_exit(0);
        },
        testing::ExitedWithCode(86), "")
        << point;
    EXPECT_EQ(bytes_of(prepare_corpus(with(2, "cut"))), whole) << point;
  }
}

TEST_F(PartsTest, FinishedPartsAreNotMadeAgainUnlessTheyAreDamaged) {
  EXPECT_EXIT(
      {
        ::setenv("KHA_FAIL_POINT", "data-part-2", 1);
        prepare_corpus(with(2, "cut"));
        ::_exit(0);
      },
      testing::ExitedWithCode(86), "");
  const fs::path parts = fs::directory_iterator(path("cut"))->path() / "parts";
  ASSERT_TRUE(fs::exists(parts / "000002.json"));
  const auto time = fs::last_write_time(parts / "000000.json");
  std::string bytes = read_file(parts / "000001.train.tokens");
  bytes[100] ^= 1;
  std::ofstream(parts / "000001.train.tokens", std::ios::binary) << bytes;
  EXPECT_EXIT(
      {
        ::setenv("KHA_FAIL_POINT", "data-part-1", 1);
        prepare_corpus(with(2, "cut"));
        ::_exit(0);
      },
      testing::ExitedWithCode(86), "");
  EXPECT_EQ(fs::last_write_time(parts / "000000.json"), time);
  EXPECT_FALSE(fs::exists(parts / "000002.json"));
  EXPECT_EQ(bytes_of(prepare_corpus(with(2, "cut"))), bytes_of(prepare_corpus(with(1, "whole"))));
}

TEST_F(CorpusTest, ReusesACompleteCacheAndRedoesAnotherOne) {
  add_documents(0, 50);
  const Corpus first = prepare_corpus(options(0.3));
  EXPECT_FALSE(first.summary.reused);
  EXPECT_TRUE(prepare_corpus(options(0.3)).summary.reused);
  const fs::path folder = first.summary.folder;
  const std::string shard = read_file(folder / "train.tokens");

  fs::remove(folder / "summary.json");
  add("cache/" + folder.filename().string() + "/.left-over", "x");
  EXPECT_FALSE(prepare_corpus(options(0.3)).summary.reused);
  EXPECT_FALSE(fs::exists(folder / ".left-over"));
  EXPECT_EQ(read_file(folder / "train.tokens"), shard);

  fs::resize_file(folder / "validation.tokens", 100);
  EXPECT_FALSE(prepare_corpus(options(0.3)).summary.reused);
  EXPECT_TRUE(prepare_corpus(options(0.3)).summary.reused);
}

TEST_F(CorpusTest, ChangedTextIsAnotherCacheAndNotAnError) {
  add_documents(0, 50);
  CorpusOptions expecting = options(0.3);
  expecting.expected_fingerprint = prepare_corpus(options(0.3)).summary.fingerprint;
  EXPECT_FALSE(prepare_corpus(expecting).summary.text_changed());
  add(name(3), "changed");
  const Corpus changed = prepare_corpus(expecting);
  EXPECT_FALSE(changed.summary.reused);
  EXPECT_TRUE(changed.summary.text_changed());
}

TEST_F(CorpusTest, SummaryCountsWhatWasSkipped) {
  add_documents(0, 50);
  add("text/empty.txt", "");
  add("text/blank.txt", "\n\n");
  const Corpus corpus = prepare_corpus(options(0.3));
  const auto json = nlohmann::json::parse(read_file(corpus.summary.folder / "summary.json"));
  EXPECT_EQ(json["skipped"]["empty"], 2);
  EXPECT_EQ(json["fingerprint"], corpus.summary.fingerprint);
  EXPECT_EQ(json["train"]["tokens"], corpus.train.tokens());
}

TEST_F(CorpusTest, ReportsProgress) {
  add_documents(0, 50);
  std::map<CorpusStage, std::uint64_t> done;
  std::uint64_t total = 0;
  prepare_corpus(options(0.3), [&](CorpusStage stage, std::uint64_t bytes, std::uint64_t of) {
    EXPECT_GT(bytes, done[stage]);
    done[stage] = bytes;
    total = of;
  });
  EXPECT_EQ(done[CorpusStage::reading], total);
  EXPECT_EQ(done[CorpusStage::writing], total);
}

TEST_F(CorpusTest, OneOfSeveralAtOnceWritesAndTheOthersUseItsShards) {
  add_documents(0, 50);
  std::atomic<int> written = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { written += !prepare_corpus(options(0.3)).summary.reused; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(written, 1);
}

TEST_F(CorpusTest, TextThatChangesWhileItIsReadIsRefused) {
  add_documents(0, 50);
  // The fingerprint is taken of all files before the first is read again.
  const auto refusal_when_replaced_by = [&](const std::string& contents) {
    return message_of([&] {
      prepare_corpus(options(0), [&](CorpusStage, std::uint64_t bytes, std::uint64_t) {
        if (bytes > 1000) add(name(0), contents);
      });
    });
  };
  std::string as_long = text(0);
  as_long.back() = 'x';
  EXPECT_THAT(refusal_when_replaced_by(as_long),
              AllOf(HasSubstr("text changed while it was read"), HasSubstr(name(0))));
  add(name(0), text(0));
  EXPECT_THAT(refusal_when_replaced_by("short"), HasSubstr("text changed while it was read"));
}

TEST_F(CorpusTest, AFolderThatCannotBeMadeIsASentence) {
  add_documents(0, 50);
  add("cache", "a file where the folder should be");
  EXPECT_THAT(refusal(options(0.3)),
              AllOf(HasSubstr("cannot make the folder for prepared text"),
                    HasSubstr(path("cache").string()), HasSubstr("Not a directory")));
}

// A disk that takes no more, by a limit on the size of files.
TEST_F(CorpusTest, AFullDiskIsASentenceAndLeavesNoShard) {
  add_documents(0, 50);
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = refusal(options(0.3));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, AllOf(HasSubstr("may not grow"), HasSubstr("train.tokens"),
                             HasSubstr("limit of 1000 bytes")));
  EXPECT_FALSE(prepare_corpus(options(0.3)).summary.reused);
}

}  // namespace
}  // namespace kha
