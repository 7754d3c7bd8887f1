#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/logits_file.h"
#include "cli/open_model.h"
#include "cli/text_shard.h"
#include "kha/core/error.h"
#include "model/decoder.h"

namespace kha::cli {
namespace {

struct Arguments {
  std::string model, text, write;
  std::vector<std::string> files;
  std::vector<int64_t> ids;
  int64_t most = 0, continued = 0;
  bool json = false;
};

std::vector<int64_t> ids_given(const Arguments& a, const LoadedModel& model) {
  if (!a.ids.empty()) return a.ids;
  if (a.files.empty()) return model.tokenizer->encode(a.text);
  const TextShard text(a.files, model.tokenizer);
  std::vector<int64_t> ids(static_cast<size_t>(a.most > 0 ? std::min(a.most, text.shard().tokens())
                                                          : text.shard().tokens()));
  text.shard().copy(0, static_cast<int64_t>(ids.size()), ids.data());
  return ids;
}

std::vector<int64_t> ids_of(const Arguments& a, const LoadedModel& model) {
  std::vector<int64_t> ids = ids_given(a, model);
  if (a.most > 0 && static_cast<int64_t>(ids.size()) > a.most) ids.resize(a.most);
  if (ids.empty()) fail({.what = "no ids and no text", .next = "--ids 1,2,3 or --text TEXT"});
  for (const int64_t id : ids) {
    if (id >= 0 && id < model.config.vocab_size) continue;
    fail({.what = "an id is outside the vocabulary",
          .where = "--ids",
          .expected = fmt::format("0 to {}", model.config.vocab_size - 1),
          .found = std::to_string(id)});
  }
  return ids;
}

int run(const Arguments& a) {
  const at::NoGradGuard no_grad;
  // Ids need no tokenizer, so that a model whose tokenizer is not read can be asked too.
  const LoadedModel model = a.ids.empty() ? open_model(a.model) : load_model(a.model);
  const auto ids = ids_of(a, model);
  if (!a.write.empty()) {
    write_logits(a.write, model, ids, a.continued);
    return 0;
  }
  const auto length = static_cast<int64_t>(ids.size());
  const Decoder decoder(model.config, model.parameters, KnockPlan::activation_space, length);
  const at::Tensor logits =
      decoder.logits(decoder.hidden(at::tensor(ids, at::kLong).unsqueeze(0)))[0];
  std::vector<std::vector<float>> rows;
  for (int64_t t = 0; t < length; ++t) {
    const float* row = logits[t].const_data_ptr<float>();
    rows.emplace_back(row, row + logits.size(1));
  }
  if (a.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"ids", ids}, {"logits", rows}}.dump());
    return 0;
  }
  for (int64_t t = 0; t < length; ++t) {
    const int64_t best = logits[t].argmax().item<int64_t>();
    fmt::print("after {:>3}: most likely {:>3}, logit {:.5f}\n", ids[t], best, rows[t][best]);
  }
  return 0;
}

}  // namespace

Command logits_command() {
  return {"logits", "logits of a model after each token of a text or of ids", [](CLI::App& app) {
            auto a = std::make_shared<Arguments>();
            app.add_option("model", a->model, "model or run folder")->required();
            auto* ids =
                app.add_option("--ids", a->ids, "token ids, comma-separated")->delimiter(',');
            auto* text = app.add_option("--text", a->text, "or a text")->excludes(ids);
            app.add_option("--file", a->files, "or a text file or folder, may be repeated")
                ->allow_extra_args(false)
                ->excludes(ids)
                ->excludes(text);
            app.add_option("--most", a->most, "the first so many ids; 0: all")
                ->check(CLI::Range(0, 1 << 24));
            auto* write = app.add_option(
                "--write", a->write,
                "a safetensors file instead: ids, logits (float32), logits_float64, continuation");
            app.add_option("--continue", a->continued, "greedy ids behind the others, in the file")
                ->check(CLI::Range(0, 1 << 20))
                ->needs(write);
            add_json_option(app, a->json);
            return [a] { return run(*a); };
          }};
}

}  // namespace kha::cli
