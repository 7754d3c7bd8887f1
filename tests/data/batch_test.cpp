#include "kha/core/batch.h"

#include <gmock/gmock.h>

#include <numeric>

#include "data/text_files.h"

namespace kha {
namespace {

using testing::ElementsAre;

class BatchTest : public TextFiles {
 protected:
  // Ids 0, 1, 2, ...
  TokenShard shard(const std::vector<std::int64_t>& lengths) const {
    std::vector<std::int64_t> ids(std::accumulate(lengths.begin(), lengths.end(), 0));
    std::iota(ids.begin(), ids.end(), 0);
    TokenShardWriter writer(path("x.tokens"), {.vocab_size = 100, .tokenizer_hash = 1});
    std::span<const std::int64_t> rest(ids);
    for (const std::int64_t length : lengths) {
      writer.write(rest.first(length));
      writer.end_document();
      rest = rest.subspan(length);
    }
    writer.finish();
    return TokenShard::open(path("x.tokens"), 1);
  }
};

TEST_F(BatchTest, BoundaryTargetsAreCountedOrNotAsSet) {
  const TokenShard two = shard({3, 3});
  const std::vector<Window> row = {{0, 5}};
  Batch batch;
  fill_batch(two, row, 5, BoundaryTargets::counted, batch);
  EXPECT_THAT(batch.inputs, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(batch.targets, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(batch.documents, ElementsAre(0, 0, 1, 1, 1));
  EXPECT_EQ(batch.counted_targets, 5);
  fill_batch(two, row, 5, BoundaryTargets::left_out, batch);
  EXPECT_THAT(batch.counted, ElementsAre(1, 1, 0, 1, 1));
  EXPECT_EQ(batch.counted_targets, 4);
}

TEST_F(BatchTest, SegmentsAndPositionsAreThoseOfTheInputs) {
  Batch batch;
  fill_batch(shard({3, 1, 4, 2}), std::vector<Window>{{1, 6}, {2, 3}}, 6, BoundaryTargets::counted,
             batch);
  EXPECT_THAT(batch.inputs, ElementsAre(1, 2, 3, 4, 5, 6, 2, 3, 4, 0, 0, 0));
  EXPECT_THAT(batch.segments, ElementsAre(0, 0, 1, 2, 2, 2, 0, 1, 2, -1, -1, -1));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0));
}

TEST_F(BatchTest, AWindowMayStartWithTheTargetOfANewDocument) {
  Batch batch;
  fill_batch(shard({3, 1, 1, 3}), std::vector<Window>{{2, 3}}, 3, BoundaryTargets::left_out, batch);
  EXPECT_THAT(batch.documents, ElementsAre(1, 2, 3));
  EXPECT_EQ(batch.counted_targets, 0);
}

TEST_F(BatchTest, ShortWindowsArePadded) {
  Batch batch;
  fill_batch(shard({3, 3}), evaluation_windows(6, 3, 0), 3, BoundaryTargets::counted, batch);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.context, 3);
  EXPECT_THAT(batch.inputs, ElementsAre(0, 1, 2, 3, 4, 0));
  EXPECT_THAT(batch.targets, ElementsAre(1, 2, 3, 4, 5, 0));
  EXPECT_THAT(batch.counted, ElementsAre(1, 1, 1, 1, 1, 0));
  EXPECT_THAT(batch.documents, ElementsAre(0, 0, 1, 1, 1, -1));
  EXPECT_EQ(batch.counted_targets, 5);
}

TEST_F(BatchTest, FillingAgainLeavesNothingOfBefore) {
  const TokenShard two = shard({3, 3});
  Batch batch;
  fill_batch(two, std::vector<Window>{{0, 2}, {2, 2}}, 2, BoundaryTargets::counted, batch);
  fill_batch(two, std::vector<Window>{{0, 1}}, 2, BoundaryTargets::counted, batch);
  EXPECT_THAT(batch.inputs, ElementsAre(0, 0));
  EXPECT_THAT(batch.documents, ElementsAre(0, -1));
  EXPECT_EQ(batch.counted_targets, 1);
}

TEST_F(BatchTest, SegmentsAndPositionsBeginAnewWithEachDocumentOfTheRow) {
  Batch batch;
  const std::vector<Window> rows = {{1, 6}, {5, 4}};
  fill_batch(shard({3, 1, 2, 4}), rows, 6, BoundaryTargets::counted, batch);
  // Tokens 1 and 2 are the rest of a document: its first token is not in the row.
  EXPECT_THAT(batch.segments, ElementsAre(0, 0, 1, 2, 2, 3, 0, 1, 1, 1, -1, -1));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 0, 0, 1, 0, 0, 0, 1, 2, 0, 0));
}

TEST_F(BatchTest, RowsMayComeFromSeveralShards) {
  const TokenShard one = shard({3, 3});
  const TokenShard two = TokenShard::open(path("x.tokens"), 1);
  const TokenShard* const shards[] = {&one, &two};
  Batch batch;
  fill_batch(shards, std::vector<Window>{{0, 2, 1}, {3, 2, 0}}, 2, BoundaryTargets::counted, batch);
  EXPECT_THAT(batch.inputs, ElementsAre(0, 1, 3, 4));
}

TEST_F(BatchTest, TargetsOfAPromptAreNotCounted) {
  TokenShardWriter writer(path("p.tokens"), {.vocab_size = 100, .tokenizer_hash = 1});
  const std::vector<std::int64_t> ids = {1, 2, 3, 4};
  for (const std::int64_t prompt : {2, 0}) {
    writer.write(ids);
    writer.end_document(prompt);
  }
  writer.finish();
  const TokenShard shard = TokenShard::open(path("p.tokens"), 1);
  Batch batch;
  fill_batch(shard, std::vector<Window>{{0, 7}}, 7, BoundaryTargets::counted, batch);
  EXPECT_THAT(batch.counted, ElementsAre(0, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(batch.counted_targets, 6);
  fill_batch(shard, std::vector<Window>{{0, 7}}, 7, BoundaryTargets::left_out, batch);
  EXPECT_THAT(batch.counted, ElementsAre(0, 1, 1, 0, 1, 1, 1));
}

}  // namespace
}  // namespace kha
