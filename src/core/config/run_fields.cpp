// The one list of a run's fields: key, storage, meaning on resume, help, limits.
#include "core/config/data_fields.h"
#include "core/config/model_fields.h"
#include "kha/core/presets.h"
#include "kha/core/run_config.h"

namespace kha {
namespace {

using enum OnResume;
constexpr double large = 1e15;

void add_run(std::vector<Field>& f, RunConfig& c) {
  f.push_back({"run.name", &c.run.name, free, "name of the run's folder"});
  f.push_back({"run.folder", &c.run.folder, free, "folder of the runs"});
  f.push_back(
      {"run.seed", &c.run.seed, refused, "seed of initialisation and data order", {}, 0, large});
  f.push_back({"run.report", &c.run.report, free, "draw report.html at the end"});
}

void add_knock(std::vector<Field>& f, RunConfig& c) {
  std::vector<std::string> names;
  for (const auto& setting : named_settings()) names.push_back(setting.name);
  const std::vector<std::string> kinds{"", "none", "linear", "mlp", "gate"};
  f.push_back({"knock.setting", &c.knock.setting, refused, "named setting of the maps", names});
  f.push_back(
      {"knock.q", &c.knock.q, refused, "map on the queries; empty: as the setting says", kinds});
  f.push_back({"knock.k", &c.knock.k, refused, "map on the keys", kinds});
  f.push_back({"knock.v", &c.knock.v, refused, "map on the values", kinds});
  f.push_back(
      {"knock.start", &c.knock.start, refused, "how the maps begin", {"identity", "random"}});
  f.push_back({"knock.plan",
               &c.knock.plan,
               refused,
               "where linear maps are applied",
               {"auto", "weight", "activation"}});
}

void add_train(std::vector<Field>& f, RunConfig& c) {
  TrainOptions& t = c.train;
  f.push_back({"train.steps", &t.steps, noted, "optimiser steps", {}, 0, large});
  f.push_back({"train.context", &t.context, refused, "tokens a sequence", {}, 1, 1 << 24});
  f.push_back({"train.batch", &t.batch, refused, "sequences a micro-batch", {}, 1, 1 << 24});
  f.push_back({"train.accumulate", &t.accumulate, refused, "micro-batches a step", {}, 1, 1 << 24});
}

void add_arithmetic(std::vector<Field>& f, RunConfig& c) {
  TrainOptions& t = c.train;
  f.push_back({"train.precision",
               &t.precision,
               noted,
               "arithmetic of the layers; weights stay fp32",
               {"auto", "fp32", "bf16"}});
  f.push_back({"train.device", &t.device, noted, "where tensors live", {"cpu", "cuda"}});
  f.push_back({"train.threads", &t.threads, noted, "threads; 0: one a core", {}, 0, 4096});
  f.push_back({"train.allocator",
               &t.allocator,
               free,
               "of CPU tensors; auto: as KHA_ALLOCATOR says, else caching",
               {"auto", "caching", "system"}});
  f.push_back({"train.recompute",
               &t.recompute,
               noted,
               "layer: less memory, each layer runs again in the backward pass; same bits",
               {"none", "layer"}});
}

void add_logs(std::vector<Field>& f, RunConfig& c) {
  TrainOptions& t = c.train;
  f.push_back({"train.log_every", &t.log_every, free, "steps between log lines", {}, 1, large});
  f.push_back(
      {"train.z_loss", &t.z_loss, noted, "weight of the output's squared log-sum-exp", {}, 0, 100});
  f.push_back({"train.tensorboard", &t.tensorboard, free, "write TensorBoard events into tb/"});
}

// Where the loop stops to evaluate or to save.
void add_stops(std::vector<Field>& f, RunConfig& c) {
  TrainOptions& t = c.train;
  f.push_back({"train.eval_every",
               &t.eval_every,
               free,
               "steps between evaluations; 0: only at the end",
               {},
               0,
               large});
  f.push_back({"train.eval_tokens",
               &t.eval_tokens,
               free,
               "validation tokens an evaluation reads; 0: all",
               {},
               0,
               large});
  f.push_back({"train.save_every",
               &t.save_every,
               free,
               "steps between checkpoints; 0: only at the end",
               {},
               0,
               large});
  f.push_back({"train.keep_last", &t.keep_last, free, "checkpoints kept", {}, 1, large});
  f.push_back({"train.keep_every",
               &t.keep_every,
               free,
               "and each at a multiple of this; 0: none",
               {},
               0,
               large});
}

void add_spike(std::vector<Field>& f, RunConfig& c) {
  f.push_back({"train.spike",
               &c.train.spike,
               noted,
               "what a loss or gradient spike does: log it, leave its batch out, or go back",
               {"note", "skip", "back"}});
}

// Names and rules behind other keys. The resolved configuration holds what came of them, so a
// change of the name alone changes no number.
void add_named_settings(std::vector<Field>& f, RunConfig& c) {
  std::vector<std::string> names{""};
  for (const auto& recipe : recipe_presets()) names.push_back(recipe.name);
  f.push_back({"train.recipe", &c.train.recipe, free,
               "a recipe's settings below the keys given here (kha plan --list)", names});
  f.push_back({"train.scale_from", &c.train.scale_from, free,
               "a recipe whose batch and learning rate are scaled to train.tokens", names});
  f.push_back({"train.tokens",
               &c.train.tokens,
               free,
               "budget of the whole run, which gives train.steps; 0: none",
               {},
               0,
               large});
}

void add_metrics(std::vector<Field>& f, RunConfig& c) {
  MetricsOptions& m = c.metrics;
  f.push_back({"metrics.attention", &m.attention, free,
               "log each head's largest logit and entropy, sizes of queries, keys and values"});
  f.push_back({"metrics.experts", &m.experts, free,
               "log each layer's router: logits, scores, biases, evenness of the load"});
  f.push_back({"metrics.maps", &m.maps, free,
               "log each map's mean diagonal and the share of its energy off the diagonal"});
}

void add_optimizer(std::vector<Field>& f, RunConfig& c) {
  OptimizerOptions& o = c.optimizer;
  f.push_back({"optimizer.lr", &o.lr, noted, "peak learning rate", {}, 0, 100});
  f.push_back({"optimizer.beta1", &o.beta1, noted, "AdamW", {}, 0, 0.999999});
  f.push_back({"optimizer.beta2", &o.beta2, noted, "AdamW", {}, 0, 0.999999});
  f.push_back({"optimizer.eps", &o.eps, noted, "AdamW", {}, 1e-20, 1});
  f.push_back({"optimizer.weight_decay",
               &o.weight_decay,
               noted,
               "of matrices, embedding and head",
               {},
               0,
               10});
  f.push_back(
      {"optimizer.clip", &o.clip, noted, "largest gradient norm; 0: no clipping", {}, 0, large});
  f.push_back({"optimizer.knock_decay",
               &o.knock_decay,
               noted,
               "decay of the maps; auto: paper from scratch, to_identity with init.from",
               {"auto", "paper", "none", "to_identity"}});
  for (const Role role : all_roles) {
    GroupOptions& group = o.groups[static_cast<size_t>(role)];
    const std::string key = "optimizer.groups." + to_string(role);
    f.push_back({key + ".lr_scale", &group.lr_scale, noted, "times optimizer.lr", {}, 0, 1000});
    f.push_back({key + ".weight_decay", &group.weight_decay, noted, "-1: the default", {}, -1, 10});
    f.push_back({key + ".freeze", &group.freeze, noted, "leave these parameters as they are"});
  }
}

void add_schedule(std::vector<Field>& f, RunConfig& c) {
  ScheduleOptions& s = c.schedule;
  f.push_back(
      {"schedule.kind", &s.kind, noted, "after the warm-up", {"cosine", "constant", "wsd"}});
  f.push_back(
      {"schedule.warmup_steps", &s.warmup_steps, noted, "-1: 5 % of the steps", {}, -1, large});
  f.push_back({"schedule.floor", &s.floor, noted, "share of lr at the end", {}, 0, 1});
  f.push_back(
      {"schedule.decay_share", &s.decay_share, noted, "wsd: share of steps that decay", {}, 0, 1});
}

void add_init(std::vector<Field>& f, RunConfig& c) {
  f.push_back({"init.from", &c.init.from, refused, "a step folder whose weights start this run"});
  f.push_back({"init.optimizer", &c.init.optimizer, refused,
               "take its optimiser state too, by parameter name"});
  f.push_back({"init.depth_scaled", &c.init.depth_scaled, refused,
               "o_proj and down_proj begin smaller, by 1 / sqrt(2 layers)"});
}

void add_compare(std::vector<Field>& f, RunConfig& c) {
  f.push_back({"compare.settings", &c.compare.settings, free,
               "arms of `kha compare`; the first is the reference"});
  f.push_back({"compare.seeds",
               &c.compare.seeds,
               free,
               "seeds an arm: run.seed, run.seed + 1, …",
               {},
               1,
               1000});
}

}  // namespace

std::vector<Field> run_fields(RunConfig& c) {
  std::vector<Field> fields;
  add_run(fields, c);
  add_model_fields(fields, c);
  add_mixture_fields(fields, c);
  add_knock(fields, c);
  add_data_fields(fields, c);
  add_train(fields, c);
  add_arithmetic(fields, c);
  add_logs(fields, c);
  add_stops(fields, c);
  add_spike(fields, c);
  add_named_settings(fields, c);
  add_expert_fields(fields, c);
  add_optimizer(fields, c);
  add_schedule(fields, c);
  add_init(fields, c);
  add_metrics(fields, c);
  add_compare(fields, c);
  return fields;
}

}  // namespace kha
