#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/open_model.h"
#include "kha/core/error.h"
#include "model/decoder.h"

namespace kha::cli {
namespace {

struct Arguments {
  std::string model, text;
  std::vector<int64_t> ids;
  bool json = false;
};

std::vector<int64_t> ids_of(const Arguments& a, const Tokenizer& tokenizer, int64_t vocabulary) {
  const std::vector<int64_t> ids = a.ids.empty() ? tokenizer.encode(a.text) : a.ids;
  if (ids.empty()) fail({.what = "no ids and no text", .next = "--ids 1,2,3 or --text TEXT"});
  for (const int64_t id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    fail({.what = "an id is outside the vocabulary",
          .where = "--ids",
          .expected = fmt::format("0 to {}", vocabulary - 1),
          .found = std::to_string(id)});
  }
  return ids;
}

int run(const Arguments& a) {
  const at::NoGradGuard no_grad;
  // Ids need no tokenizer, so that a model whose tokenizer is not read can be asked too.
  const LoadedModel model = a.ids.empty() ? open_model(a.model) : load_model(a.model);
  const auto ids = ids_of(a, *model.tokenizer, model.config.vocab_size);
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
            app.add_option("--text", a->text, "or a text")->excludes(ids);
            add_json_option(app, a->json);
            return [a] { return run(*a); };
          }};
}

}  // namespace kha::cli
