#include "kha/core/memory_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kha/core/counts.h"
#include "kha/core/presets.h"

namespace kha {
namespace {

ModelConfig model_of(const std::string& name) {
  const ModelPreset* preset = find_model_preset(name);
  std::vector<std::string> sets = preset->sets;
  sets.push_back("knock.setting=baseline");
  ModelConfig model = parse_run_config("", name, sets).model;
  model.vocab_size = preset->vocab_size;
  return model;
}

std::string gib(double bytes) { return fmt::format("{:.2f}", bytes / (1 << 30)); }
std::string mib(double bytes) { return fmt::format("{:.0f}", bytes / (1 << 20)); }

TEST(ShardedMemory, AreTheNumbersOfThePapersModels) {
  struct Row {
    const char *name, *all, *on_8, *on_16, *on_64, *layer, *embedding;
  };
  for (const Row& row : {Row{"moe-2.3b", "34.99", "4.37", "2.19", "0.55", "344", "345"},
                         {"moe-6.6b", "98.55", "12.32", "6.16", "1.54", "675", "460"},
                         {"moe-14.6b", "218.31", "27.29", "13.64", "3.41", "1188", "614"},
                         {"moe-6.1b", "90.93", "11.37", "5.68", "1.42", "613", "614"},
                         {"dense-0.61b", "9.15", "1.14", "0.57", "0.14", "36", "307"},
                         {"dense-1.68b", "25.05", "3.13", "1.57", "0.39", "108", "614"},
                         {"dense-3.94b", "58.73", "7.34", "3.67", "0.92", "188", "768"}}) {
    const ModelConfig model = model_of(row.name);
    const auto on = [&](int64_t devices) { return predict_sharded_memory(model, {}, devices); };
    EXPECT_EQ(gib(on(1).state), row.all) << row.name;
    EXPECT_EQ(gib(on(8).state_a_device), row.on_8) << row.name;
    EXPECT_EQ(gib(on(16).state_a_device), row.on_16) << row.name;
    EXPECT_EQ(gib(on(64).state_a_device), row.on_64) << row.name;
    EXPECT_EQ(mib(on(8).layer), row.layer) << row.name;
    EXPECT_EQ(mib(on(8).embedding), row.embedding) << row.name;
  }
}

TEST(ShardedMemory, PartsAreThoseOfTheMicroBatch) {
  const ModelConfig model = model_of("dense-0.61b");
  const ShardedMemory m = predict_sharded_memory(model, {.rows = 2, .context = 4096}, 8);
  EXPECT_EQ(fmt::format("{:.1f}", m.logits / (1 << 30)), "4.8");  // 8,192 tokens in float32
  EXPECT_DOUBLE_EQ(m.activations, 24.0 * 8192 * 1024 * 2);
  EXPECT_DOUBLE_EQ(m.layer_gradients, 2 * m.layer);
  EXPECT_DOUBLE_EQ(m.peak(), m.state_a_device + 2 * m.layer + m.embedding + m.layer_gradients +
                                 m.activations + m.recomputed);
}

TEST(StepMemory, StateIsTwelveBytesAParameterAndGradientsFour) {
  const ModelConfig model;
  const double parameters = static_cast<double>(count_parameters(model).total);
  const StepMemory m = predict_step_memory(model, {});
  EXPECT_DOUBLE_EQ(m.weights, 4 * parameters);
  EXPECT_DOUBLE_EQ(m.moments, 8 * parameters);
  EXPECT_DOUBLE_EQ(m.gradients, 4 * parameters);
}

// d = 256, F = 768, 8 query and 2 KV heads of 32, 4 layers, 2,048 tokens: counted by hand. A layer
// keeps x, its norm, queries and keys before and after their norm, values, the heads' output with a
// number each, x again, its norm, gate and up.
TEST(StepMemory, ALayerKeepsWhatItsOperatorsWereGiven) {
  const StepMemory m = predict_step_memory({}, {.rows = 8, .context = 256});
  const double layer = 4 * 256 + 2 * (256 + 64) + 64 + 256 + 8 + 2 * 768;
  EXPECT_DOUBLE_EQ(m.kept, 4.0 * 2048 * 4 * layer);
  // The worst moment: the topmost feed-forward runs backward.
  const double parameters = static_cast<double>(count_parameters({}).total);
  const double moment = 2048 * (4 * layer + 3 * 768 + 256 + 2 * 256 + 6) + 257 * 256 + 768 * 256;
  EXPECT_DOUBLE_EQ(m.peak, 4 * (3 * parameters + moment));
}

// What one layer of the default sizes keeps beside its feed-forward's 2 x 256 + 2 x 768 and the 2 x
// 256 of its attention's norm, a token: counted by hand from the code of each system.
double attention_keeps(const ModelConfig& model, BatchShape batch = {.rows = 8, .context = 256}) {
  const double tokens = 2048, layers = 4, rest = 4 * 256 + 2 * 768;
  return predict_step_memory(model, batch).kept / (4 * tokens * layers) - rest;
}

ModelConfig latent_model() {
  ModelConfig model;
  model.attention = "mla";
  model.num_key_value_heads = 8;
  model.latent_heads = 1;
  model.kv_latent = 64;
  model.rope_head_dim = 16;
  return model;
}

// Latents and rotated key before the norm, latents behind it; queries, keys, values and output of 8
// heads, widened to 48; the output again at its own width; a number a head.
// Queries and keys of 48, what was formed of the latents (keys and values of 32), the output.
TEST(StepMemory, LatentAttentionKeepsWhatItForms) {
  ModelConfig model = latent_model();
  const double plain = (64 + 16) + 64 + 2 * 8 * 48 + 2 * 256 + 256 + 8;
  EXPECT_DOUBLE_EQ(attention_keeps(model), plain);
  model.query_latent = 128;
  EXPECT_DOUBLE_EQ(attention_keeps(model), plain + 2 * 128);
}

// In weight space a map forms a weight and keeps no activation; in activation space its input.
TEST(StepMemory, LinearMapsStandWhereTheRunPutsThem) {
  ModelConfig model, plain;
  model.knocks.all = named_setting("kha-linear", "").knocks;
  const double bare = attention_keeps(plain);
  BatchShape batch{.rows = 8, .context = 256};
  EXPECT_DOUBLE_EQ(attention_keeps(model, batch), bare) << "2,048 tokens are more than 256";
  batch.maps_in_weights = false;
  EXPECT_DOUBLE_EQ(attention_keeps(model, batch), bare + 8 * 32 + 2 * 2 * 32);
  ModelConfig latent = latent_model(), mapped = latent_model();
  mapped.knocks.all = model.knocks.all;
  const BatchShape many{.rows = 8, .context = 256};
  const double formed = 4 * (8 * 48 * 256 + 2 * 8 * 64 * 64);  // 4 layers: q once, kv_b twice
  const double maps = 4 * 3 * 32 * 32;
  const double apart =
      predict_step_memory(mapped, many).peak - predict_step_memory(latent, many).peak;
  EXPECT_DOUBLE_EQ(apart, 4 * (formed + 3 * maps));
}

TEST(StepMemory, TheOtherSystemsKeepWhatTheyForm) {
  ModelConfig model;
  model.attention = "talking";
  EXPECT_DOUBLE_EQ(attention_keeps(model), 2 * 256 + 2 * 64 + 64 + 256 + 3 * 8 * 256);
  model.attention = "collaborative";
  model.num_key_value_heads = 8;
  model.shared_key_width = 48;
  EXPECT_DOUBLE_EQ(attention_keeps(model), 2 * 48 + 8 * 48 + 256 + 256 + 8 * 256);
  ModelConfig tied;
  tied.attention = "gta";
  tied.rope_head_dim = 16;
  EXPECT_DOUBLE_EQ(attention_keeps(tied), 2 * 256 + 16 + 2 * 64 + 256 + 8);
}

// Logits of 16 experts; of 4 a token: weight, number, and two places of twice the size; gate and
// up.
TEST(StepMemory, ExpertsKeepGateAndUpOfTheChosen) {
  ModelConfig model;
  const double attention = attention_keeps(model);
  model.experts = {.count = 16, .active = 4, .width = 192};
  const double experts = attention_keeps(model) - attention + 2 * 768;
  EXPECT_DOUBLE_EQ(experts, 16 + 7 * 4 + 2 * 4 * 192);
}

TEST(StepMemory, ManyParametersAndFewTokensEndWithAllGradients) {
  ModelConfig model;
  model.hidden_size = 1024;
  model.intermediate_size = 4096;
  const double parameters = static_cast<double>(count_parameters(model).total);
  const StepMemory m = predict_step_memory(model, {.rows = 1, .context = 16});
  EXPECT_GT(m.peak, 16 * parameters);
  EXPECT_LT(m.peak, 16.2 * parameters);
}

// At the embedding: its gradient, made whole, beside the head's in the same matrix, or as one of
// all where it has a matrix of its own. Around them the last hidden state, its gradient, the first
// one's, ids, targets, losses and scales.
TEST(StepMemory, ALargeVocabularyHasItsGradientTwiceWhereItIsTied) {
  ModelConfig model;
  model.vocab_size = 100000;
  const double vocabulary = 100000.0 * 256;
  const auto peak = [&] { return predict_step_memory(model, {.rows = 1, .context = 16}).peak; };
  const auto all = [&] { return static_cast<double>(count_parameters(model).total); };
  const double around = 16 * (3 * 256 + 6);
  EXPECT_DOUBLE_EQ(peak(), 4 * (4 * all() + vocabulary + around));
  model.tie_word_embeddings = false;
  EXPECT_DOUBLE_EQ(peak(), 4 * (4 * all() + around));
}

// What the kernel made of each document, and one tensor of them all.
TEST(StepMemory, DocumentsEachForItselfKeepTheOutputTwice) {
  const BatchShape batch{.rows = 8, .context = 256, .document_mask = true};
  ModelConfig model;
  EXPECT_DOUBLE_EQ(attention_keeps(model, batch) - attention_keeps(model), 256);
  EXPECT_DOUBLE_EQ(attention_keeps(latent_model(), batch) - attention_keeps(latent_model()), 256);
  model.attention = "talking";
  EXPECT_DOUBLE_EQ(attention_keeps(model, batch), attention_keeps(model));
}

TEST(StepMemory, RecomputingKeepsOneInputALayer) {
  ModelConfig model;
  model.num_hidden_layers = 16;
  const BatchShape batch{.rows = 8, .context = 256};
  BatchShape again = batch;
  again.recompute = true;
  EXPECT_DOUBLE_EQ(predict_step_memory(model, again).kept, 4.0 * 2048 * 16 * 256);
  EXPECT_LT(predict_step_memory(model, again).peak, 0.6 * predict_step_memory(model, batch).peak);
}

TEST(StepMemory, MicroBatchesAddTheGradientsOfTheFirst) {
  const BatchShape one{.rows = 8, .context = 256}, two{.rows = 8, .context = 256, .accumulate = 2};
  const double parameters = static_cast<double>(count_parameters({}).total);
  EXPECT_DOUBLE_EQ(predict_step_memory({}, two).peak - predict_step_memory({}, one).peak,
                   4 * parameters);
}

}  // namespace
}  // namespace kha
