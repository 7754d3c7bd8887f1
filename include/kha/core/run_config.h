// A run as one TOML file describes it. One field list (run_fields) serves reading, checking,
// printing, saving, `--set` and the comparison on resume.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "kha/core/model_config.h"
#include "kha/core/parameter_table.h"

namespace kha {

struct RunOptions {
  std::string name = "run";
  std::string folder = "runs";  // the run lives in folder/name
  int64_t seed = 1;             // initialisation (with each parameter's name) and data order
  bool report = true;           // draw report.html at the end
};

struct KnockOptions {
  std::string setting = "kha-mlp";
  std::string q = {}, k = {}, v = {};  // a kind each; empty: as the setting says
  // [knock.layers.3] v = "none"
  std::map<std::string, std::map<std::string, std::string>> layers = {};
  std::string start = "identity";
  std::string plan = "auto";  // where linear maps are applied: auto | weight | activation
};

struct DataOptions {
  std::vector<std::string> paths;
  std::vector<std::string> extensions;  // of files in folders; empty: every text file
  double validation_share = 0.02;       // of the documents
  int64_t split_seed = 1;
  std::string fingerprint;        // the text that was meant; another is reported, not refused
  std::string cache;              // folder of token shards; empty: folder/.data
  bool boundary_targets = true;   // count the guess of a document's first token
  std::vector<double> weights;    // of the paths, one each; empty: all text is one source
  std::string text_key = "text";  // of JSON lines and Parquet rows
  std::string prompt_key;         // with answer_key: the prompt is given, not learned
  std::string answer_key;
  int64_t bad_lines = 0;         // lines that are no document and are skipped, at most
  std::string raw_type;          // of .bin files: uint16 | uint32
  std::string tokenizer;         // a tokenizer.json or its folder; empty: bytes, or init.from's own
  int64_t vocab_multiple = 1;    // rows of the embedding are a multiple of this
  bool document_mask = false;    // a token sees its own document only
  bool reset_positions = false;  // each document begins at position 0
};

struct TrainOptions {
  int64_t steps = 1000;
  int64_t context = 256;           // tokens a sequence
  int64_t batch = 8;               // sequences a micro-batch
  int64_t accumulate = 1;          // micro-batches a step
  std::string precision = "auto";  // auto | fp32 | bf16
  std::string device = "cpu";      // cpu | cuda
  int64_t threads = 0;             // 0: one a core
  std::string allocator = "auto";  // of CPU tensors: auto | caching | system
  std::string recompute = "none";  // none | layer: run each layer again in the backward pass
  int64_t log_every = 10;
  bool tensorboard = true;  // write TensorBoard events beside metrics.jsonl
  int64_t eval_every = 200;
  int64_t eval_tokens = 65536;  // validation tokens an evaluation reads; 0: all
  int64_t save_every = 500;
  int64_t keep_last = 2;        // checkpoints kept; the newest good one always is
  int64_t keep_every = 0;       // and every checkpoint at a multiple of this many steps
  double z_loss = 0;            // weight of the squared log of the output's sum of exponentials
  std::string spike = "note";   // what a loss spike does: note | skip | back
  std::string recipe = {};      // a recipe's name; keys given beside it win
  std::string scale_from = {};  // a recipe whose batch and rate are scaled to the budget `tokens`
  double tokens = 0;            // of the whole run, for scale_from
};

// What evaluations and checkpoints add to metrics.jsonl beside the few keys that are always there.
struct MetricsOptions {
  bool attention = false;  // largest logit and entropy of the heads, sizes of queries, keys, values
  bool experts = false;    // of each layer's router: logits, scores, biases, evenness of the load
  bool maps = false;       // mean diagonal and off-diagonal share of each map
};

struct GroupOptions {
  double lr_scale = 1.0;
  double weight_decay = -1.0;  // -1: the group's default
  bool freeze = false;
};

struct OptimizerOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;                              // of matrices, embedding and head
  double clip = 1.0;                                      // largest gradient norm; 0: no clipping
  std::string knock_decay = "auto";                       // auto | paper | none | to_identity
  std::array<GroupOptions, std::size(all_roles)> groups;  // indexed by Role
};

// Training of a mixture of experts.
struct ExpertOptions {
  std::string balance = "rms";  // of the selection bias: rms | sign | proportional | none
  double balance_rate = 1e-3;   // u
  double balance_loss = 0;      // weight of the auxiliary loss
  double router_z_loss = 0;     // weight of the squared log of the router's sum of exponentials
  double balance_until = 1;     // share of the steps behind which the bias stays as it is
};

struct ScheduleOptions {
  std::string kind = "cosine";  // cosine | constant | wsd
  int64_t warmup_steps = -1;    // -1: 5 % of the steps
  double floor = 0.1;           // share of lr at the end
  double decay_share = 0.2;     // wsd: the share of steps that decay
};

struct InitOptions {
  std::string from;           // a step folder whose weights start this run
  bool optimizer = false;     // and its optimiser state, by parameter name
  bool depth_scaled = false;  // o_proj and down_proj begin smaller, by 1 / sqrt(2 L)
};

struct CompareOptions {
  std::vector<std::string> settings{"baseline", "kha-linear", "kha-mlp"};
  int64_t seeds = 1;  // run.seed, run.seed + 1, …
  // Attention systems or sizes to compare, by name: the settings "key=value" that make each; every
  // setting is trained on every variant.
  std::map<std::string, std::vector<std::string>> variants = {};
};

struct RunConfig {
  RunOptions run;
  ModelConfig model;  // vocab_size and token ids come from the tokenizer
  KnockOptions knock;
  DataOptions data;
  TrainOptions train;
  OptimizerOptions optimizer;
  ExpertOptions experts;
  ScheduleOptions schedule;
  InitOptions init;
  CompareOptions compare;
  MetricsOptions metrics;
  std::string model_preset;         // the named model that [model] began from
  std::set<std::string> given;      // keys that the file or --set named
  std::vector<std::string> chosen;  // what names and rules settled, in words

  std::filesystem::path run_folder() const;
  int64_t tokens_per_step() const { return train.context * train.batch * train.accumulate; }
};

// What a change of a field means for a run that is continued.
enum class OnResume {
  free,     // touches no number of the run (logging, retention, names)
  noted,    // allowed, printed (learning rate, steps, …)
  refused,  // would silently make another run (model, data, seed, batch)
};

using FieldValue = std::variant<int64_t*, double*, bool*, std::string*, std::vector<std::string>*,
                                std::vector<double>*>;

struct Field {
  std::string key;  // "train.steps"
  FieldValue value;
  OnResume on_resume;
  std::string help;
  std::vector<std::string> choices = {};
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

// The list; pointers go into `config`, which must outlive it.
std::vector<Field> run_fields(RunConfig& config);

// Reads TOML text, then each "key=value" of `sets`; validates. Errors carry file and line.
RunConfig parse_run_config(const std::string& toml_text, const std::string& where,
                           const std::vector<std::string>& sets);
RunConfig read_run_config(const std::filesystem::path& file, const std::vector<std::string>& sets);

// The whole resolved configuration as TOML; parse_run_config reads it back to the same value.
std::string to_toml(const RunConfig& config);

// The maps that the [knock] table describes.
ModelKnocks resolve_knocks(const KnockOptions& options, const std::string& where);

// The [knock] table that describes these maps; start and plan stay those of `options`.
KnockOptions describe_knocks(const ModelKnocks& knocks, const KnockOptions& options);

struct ChangedField {
  std::string key, before, after;
  OnResume on_resume;
};
std::vector<ChangedField> changed_fields(const RunConfig& before, const RunConfig& after);

}  // namespace kha
