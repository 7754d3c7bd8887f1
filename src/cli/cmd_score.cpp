// kha-engine score: a model that stays and answers, one JSON object a line. For kha-harness.
//
//   first line out   {"vocab_size", "context", "end", "tokenizer"}
//   {"encode": ["text", ...], "around": bool}   {"ids": [[...], ...]}
//   {"score": [{"ids": [...], "from": 3}, ...]} {"scores": [[sum, greedy], ...]}
//   {"generate": [ids], "most": 32, "until": ["\n"]}  {"text": "..."}
#include "cli/cmd_score.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/open_model.h"
#include "cli/score_sequences.h"
#include "kha/core/error.h"
#include "model/generate/generate.h"

namespace kha::cli {
namespace {

using Json = nlohmann::json;

void answer(const Json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
  std::fflush(stdout);
}

Json facts(const LoadedModel& model) {
  return {{"vocab_size", model.config.vocab_size},
          {"context", model.config.max_position_embeddings},
          {"end", model.tokenizer->end_id()},
          {"tokenizer", model.tokenizer->kind()}};
}

Json encode(const LoadedModel& model, const Json& request) {
  Json all = Json::array();
  for (const auto& text : request.at("encode")) {
    std::vector<int64_t> ids;
    model.tokenizer->encode_with_special(text.get<std::string>(), ids, request.at("around"));
    all.push_back(ids);
  }
  return {{"ids", all}};
}

ScoredSequence sequence_of(const Json& json, const ModelConfig& config) {
  ScoredSequence sequence{json.at("ids"), json.at("from")};
  const auto size = static_cast<int64_t>(sequence.ids.size());
  if (sequence.from < 1 || sequence.from > size || size > config.max_position_embeddings + 1) {
    fail({.what = "a sequence cannot be scored",
          .expected = fmt::format("at most {} ids, scored from 1 or later",
                                  config.max_position_embeddings + 1),
          .found = fmt::format("{} ids, scored from {}", size, sequence.from)});
  }
  for (const int64_t id : sequence.ids) {
    if (id >= 0 && id < config.vocab_size) continue;
    fail({.what = "an id is outside the vocabulary",
          .expected = fmt::format("0 to {}", config.vocab_size - 1),
          .found = std::to_string(id)});
  }
  return sequence;
}

Json score(const LoadedModel& model, const Decoder& decoder, const Json& request) {
  std::vector<ScoredSequence> sequences;
  for (const auto& each : request.at("score")) {
    sequences.push_back(sequence_of(each, model.config));
  }
  Json scores = Json::array();
  const auto take = [&](const std::vector<ScoredSequence>& some) {
    for (const auto& [sum, greedy] : score_sequences(decoder, some)) {
      scores.push_back(Json::array({sum, greedy}));
    }
  };
  // Where rotary frequencies follow the length, a sequence beside a longer one would get its.
  if (!model.config.rotary_scaling.depends_on_length()) {
    take(sequences);
  } else {
    for (const auto& each : sequences) take({each});
  }
  return {{"scores", scores}};
}

Json continue_text(const LoadedModel& model, const Json& request) {
  GenerateOptions options{.max_new_tokens = request.at("most"), .stops = request.at("until")};
  options.sampling.temperature = 0;
  // Frequencies that follow the length make a cache of the shorter text's keys useless.
  options.use_cache = !model.config.rotary_scaling.depends_on_length();
  return {{"text", generate(model, request.at("generate"), options).text}};
}

int run(const std::string& folder) {
  const at::NoGradGuard no_grad;
  const LoadedModel model = open_model(folder);
  const Decoder decoder(model.config, model.parameters, KnockPlan::activation_space,
                        model.config.max_position_embeddings);
  answer(facts(model));
  for (std::string line; std::getline(std::cin, line);) {
    const Json request = Json::parse(line);
    if (request.contains("encode")) {
      answer(encode(model, request));
    } else if (request.contains("score")) {
      answer(score(model, decoder, request));
    } else {
      answer(continue_text(model, request));
    }
  }
  return 0;
}

}  // namespace

Command score_command() {
  return {"score", "a model that answers questions about token sequences, for kha harness",
          [](CLI::App& app) {
            auto model = std::make_shared<std::string>();
            app.add_option("model", *model, "model or run folder")->required();
            return [model] { return run(*model); };
          }};
}

}  // namespace kha::cli
