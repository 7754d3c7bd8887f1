#include "train/session.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "kha/core/check_tensors.h"
#include "kha/core/corpus_line.h"
#include "kha/core/error.h"
#include "kha/core/model_folder.h"
#include "kha/core/model_tokenizer.h"
#include "kha/core/model_warnings.h"
#include "memory/caching_allocator.h"
#include "model/initialise.h"
#include "model/model_io.h"
#include "model/parameter_layout.h"
#include "train/what_ran.h"

namespace kha {
namespace {

// The maps of a model that starts from another model's weights: names that are new.
std::vector<std::string> added_maps(const ModelFiles& files,
                                    const std::vector<ParameterSpec>& table) {
  std::vector<std::string> added;
  for (const auto& spec : table) {
    if (spec.role == Role::knock && !files.find(spec.name)) added.push_back(spec.name);
  }
  return added;
}

bool names_maps(const RunConfig& config) {
  return std::any_of(config.given.begin(), config.given.end(), [](const std::string& key) {
    return key.starts_with("knock.") && key != "knock.start" && key != "knock.plan";
  });
}

// The maps of a run that starts from `base`: the model's own, and those that the run adds. A map
// that the model has may not go or change its kind: the model would be another one.
ModelKnocks maps_of_run(const RunConfig& config, const ModelConfig& base,
                        const std::string& where) {
  if (!names_maps(config)) return base.knocks;
  for (int64_t layer = 0; layer < base.num_hidden_layers; ++layer) {
    for (const KnockSlot slot : knock_slots) {
      const KnockKind own = base.knocks.at(layer).at(slot);
      const KnockKind wanted = config.model.knocks.at(layer).at(slot);
      if (own == KnockKind::none || own == wanted) continue;
      fail({.what = "the run's [knock] table would drop a map that the model has",
            .where = where,
            .expected = fmt::format("layer {}, {}: {}", layer, to_string(slot), to_string(own)),
            .found = to_string(wanted),
            .next = "leave [knock] out to keep the model's maps, or fold them first: kha fold " +
                    where + " --to DIR"});
    }
  }
  return config.model.knocks;
}

// The run's model keeps the other model's shape; a key that was given and says otherwise is
// refused.
void take_shape(RunConfig& config, const ModelConfig& base, const std::string& where) {
  RunConfig with_base = config;
  with_base.model = base;
  for (const auto& change : changed_fields(with_base, config)) {
    if (change.key.starts_with("model.") && config.given.count(change.key)) {
      fail({.what = "`" + change.key + "` differs from the model that the run starts from",
            .where = where,
            .expected = change.before,
            .found = change.after,
            .next = "remove the key, or correct it"});
    }
  }
  // The context is the length from which these frequencies stretch, and a model says it once.
  if (base.rotary_scaling.kind == "dynamic" &&
      config.train.context > base.max_position_embeddings) {
    fail({.what = "the rotary scaling `dynamic` does not train beyond its model's context",
          .where = where,
          .expected = fmt::format("train.context of at most {}", base.max_position_embeddings),
          .found = fmt::format("{}", config.train.context),
          .next = "train on shorter texts, or give the model another scaling in its config.json"});
  }
  const ModelKnocks knocks = maps_of_run(config, base, where);
  config.knock = describe_knocks(knocks, config.knock);
  config.model = base;
  config.model.knocks = knocks;
  config.model.dtype = "float32";
  config.model.max_position_embeddings =
      std::max(base.max_position_embeddings, config.train.context);
}

// Ids of another tokenizer mean other text to the weights that the run starts from.
void warn_of_another_tokenizer(const Tokenizer& tokenizer, const ModelConfig& base,
                               const std::filesystem::path& folder, Progress& progress) {
  if (open_model_tokenizer(folder, base.vocab_size)->hash() == tokenizer.hash()) return;
  progress.line(
      "warning: data.tokenizer is not the tokenizer of the model that the run starts from, whose "
      "weights know its ids as other text");
}

Parameters parameters_from(const std::filesystem::path& folder, RunConfig& config,
                           const Tokenizer& tokenizer, Progress& progress) {
  const ModelConfig base = read_model_config(folder);
  take_shape(config, base, folder.string());
  check_vocabulary(tokenizer, base.vocab_size, folder);
  warn_of_another_tokenizer(tokenizer, base, folder, progress);
  const ModelFiles files = ModelFiles::open(folder);
  const auto table = parameter_table(config.model);
  const auto added = added_maps(files, table);
  for (const auto& warning : check_tensors(files, base).warnings)
    progress.line("warning: " + warning);
  const KnockStart start = parse_knock_start(config.knock.start, "knock.start");
  Parameters parameters = make_parameters(config.model, start, [&](const ParameterSpec& spec) {
    const bool fresh = spec.role == Role::knock && !files.find(spec.name);
    return fresh ? initial_tensor(spec, config.model.initializer_range, config.run.seed)
                 : read_parameter(files, spec.name);
  });
  progress.line(fmt::format("starts from {}: {} tensors read, {} of maps added{}", folder.string(),
                            table.size() - added.size(), added.size(),
                            added.empty() ? "" : fmt::format(" ({} …)", added.front())));
  return parameters;
}

// What each layer adds to the residual stream begins smaller, so that the sum of all begins at the
// size that one has.
void scale_by_depth(const ModelConfig& model, const Parameters& parameters) {
  const at::NoGradGuard no_grad;
  const double factor = 1 / std::sqrt(2.0 * static_cast<double>(model.num_hidden_layers));
  for (const auto& [name, value] : parameters.entries()) {
    const bool adds = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight") ||
                      name.ends_with("experts.down_proj");
    if (adds) value.mul_(factor);
  }
}

void inherit_optimizer(const std::filesystem::path& folder, Session& session, Progress& progress) {
  const OptimizerMatch match = read_optimizer_state(folder, *session.optimizer);
  progress.line(fmt::format("optimiser state of {} tensors kept, {} start fresh{}{}",
                            match.kept.size(), match.fresh.size(), match.fresh.empty() ? "" : ": ",
                            fmt::join(match.fresh, ", ")));
  if (!match.unused.empty()) {
    progress.line(fmt::format("  not used: {}", fmt::join(match.unused, ", ")));
  }
}

}  // namespace

BatchPlan Session::batch_plan() const { return kha::batch_plan(config, *corpus); }

Packing Session::packing() const {
  return {.document_mask = config.data.document_mask,
          .reset_positions = config.data.reset_positions};
}

EvaluationPlan Session::evaluation_plan() const {
  return {.context = config.train.context,
          .rows = config.train.batch,
          .max_tokens = config.train.eval_tokens,
          .boundary =
              config.data.boundary_targets ? BoundaryTargets::counted : BoundaryTargets::left_out,
          .packing = packing()};
}

void take_tokenizer(RunConfig& config, const Tokenizer& tokenizer) {
  const int64_t multiple = config.data.vocab_multiple;
  config.model.vocab_size = (tokenizer.vocab_size() + multiple - 1) / multiple * multiple;
  config.model.eos_token_id = {};
  if (tokenizer.end_id() >= 0) config.model.eos_token_id = {tokenizer.end_id()};
}

std::shared_ptr<const RunCorpus> open_corpus(RunConfig& config, Progress& progress) {
  auto corpus = std::make_shared<RunCorpus>(prepare_run_corpus(config, CorpusLine(progress)));
  take_tokenizer(config, *corpus->tokenizer);
  for (const auto& line : describe(*corpus)) progress.line(line);
  return corpus;
}

Session start_session(RunConfig config, std::shared_ptr<const RunCorpus> corpus,
                      Progress& progress) {
  choose_allocator(config.train.allocator);
  std::vector<std::string> warnings = model_warnings(config.model);
  const Arithmetic arithmetic = resolve_arithmetic(config, warnings);
  for (const auto& warning : warnings) progress.line("warning: " + warning);
  const KnockStart start = parse_knock_start(config.knock.start, "knock.start");
  const auto from =
      config.init.from.empty() ? std::filesystem::path() : resolve_model_folder(config.init.from);
  Parameters parameters = from.empty()
                              ? initialise(config.model, start, config.run.seed)
                              : parameters_from(from, config, *corpus->tokenizer, progress);
  if (from.empty() && config.init.depth_scaled) scale_by_depth(config.model, parameters);
  auto table = memory_table(config.model, start);
  parameters = parameters.to(arithmetic.device);
  auto optimizer = std::make_unique<Optimizer>(config, table, parameters);
  if (optimizer->trainable().empty()) {
    fail({.what = "there is nothing to train: every group is frozen",
          .where = "optimizer.groups",
          .next = "set freeze = false for at least one group"});
  }
  Session session{std::move(config),     std::move(corpus),    arithmetic, std::move(table),
                  std::move(parameters), std::move(optimizer), {}};
  session.state.ran = what_ran(arithmetic, session.config.model);
  session.state.data = session.batch_plan().position(0);
  if (!from.empty() && session.config.init.optimizer) inherit_optimizer(from, session, progress);
  return session;
}

void save_session(const Session& session, CheckpointStore& store) {
  PendingCheckpoint pending = store.begin(session.state.step);
  write_model(pending.folder(), session.config.model, session.parameters,
              *session.corpus->tokenizer);
  write_training_state(pending.folder(), session.state, session.config, *session.optimizer);
  pending.commit();
  store.retain(session.config.train.keep_last, session.config.train.keep_every);
}

}  // namespace kha
