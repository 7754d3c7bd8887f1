#include "train/resume.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/store/wording.h"
#include "kha/core/check_tensors.h"
#include "kha/core/error.h"
#include "kha/core/model_tokenizer.h"
#include "kha/core/run_record.h"
#include "model/model_io.h"
#include "model/parameter_layout.h"
#include "train/what_ran.h"

namespace kha {
namespace {

void refuse_harmful_changes(const RunConfig& before, const RunConfig& after,
                            const std::filesystem::path& folder, Progress& progress) {
  std::vector<std::string> refused;
  for (const auto& change : changed_fields(before, after)) {
    const std::string text = fmt::format("{}: {} -> {}", change.key, change.before, change.after);
    if (change.on_resume == OnResume::refused) refused.push_back(text);
    if (change.on_resume == OnResume::noted) progress.line("  changed: " + text);
  }
  if (refused.empty()) return;
  fail({.what = "these changes would make another run of this one",
        .where = folder.string(),
        .found = fmt::format("{}", fmt::join(refused, "; ")),
        .next = "take them back, or start a run of its own: --set run.name=NAME"});
}

// The configuration names a path; what lies there may have been trained anew.
void check_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size,
                     const std::filesystem::path& folder) {
  const auto saved = open_model_tokenizer(folder, vocab_size);
  if (saved->hash() == tokenizer.hash()) return;
  fail({.what = "the tokenizer is not the one that this run began with",
        .where = (folder / "tokenizer.json").string(),
        .expected = fmt::format("hash {:016x}", saved->hash()),
        .found = fmt::format("hash {:016x}", tokenizer.hash()),
        .next = "set data.tokenizer to " + folder.string()});
}

// A checkpoint of this run has moments of all that it trained, and of nothing else.
void check_own_moments(const OptimizerMatch& match, const Session& session,
                       const std::filesystem::path& folder) {
  const auto& groups = read_checkpoint_config(folder).optimizer.groups;
  std::vector<std::string> wrong;
  for (const auto& spec : session.table) {
    const bool frozen = groups[static_cast<size_t>(spec.role)].freeze;
    const bool fresh = std::ranges::count(match.fresh, spec.name) > 0;
    if (fresh && !frozen) wrong.push_back("none of " + spec.name);
  }
  for (const auto& name : match.unused) {
    if (!session.parameters.find(name).defined()) wrong.push_back("some of " + name);
  }
  if (wrong.empty()) return;
  refuse_moments(folder, "", "moments of every parameter that the run trains, and no others",
                 listed(wrong, 4));
}

// A run that went back to this checkpoint and was stopped before the next one has it in its log.
void take_left_out(Session& session) {
  TrainingState& s = session.state;
  s.batches_left_out =
      std::max(s.batches_left_out, batches_left_out_at(session.config.run_folder(), s.step));
  s.data = session.batch_plan().position(s.batch());
}

std::string left_out_text(int64_t batches) {
  if (batches == 0) return "";
  return fmt::format("; its data is {} batches ahead, left out when it went back from spikes",
                     batches);
}

void load_checkpoint(Session& session, const std::filesystem::path& folder, Progress& progress) {
  refuse_harmful_changes(read_checkpoint_config(folder), session.config, folder, progress);
  check_tokenizer(*session.corpus->tokenizer, session.config.model.vocab_size, folder);
  const WhatRan before = read_training_state(folder).ran;
  const auto fresh = restore_session(session, folder);
  if (!fresh.empty()) {
    progress.line(
        fmt::format("  no optimiser state for {}: these start fresh", fmt::join(fresh, ", ")));
  }
  for (const auto& difference : differences(before, session.state.ran)) {
    progress.line("  differs from the checkpoint, so bits may too: " + difference);
  }
  take_left_out(session);
  progress.line(fmt::format("continues from {} ({} of {} steps){}", folder.string(),
                            session.state.step, session.config.train.steps,
                            left_out_text(session.state.batches_left_out)));
}

// The checkpoint that the run goes on from: the named one, or the newest good one.
std::optional<std::filesystem::path> folder_to_resume(const CheckpointStore& store,
                                                      const ResumeRequest& request,
                                                      Progress& progress) {
  if (request.mode == ResumeRequest::Mode::folder) {
    verify(request.folder);
    return request.folder;
  }
  const LatestCheckpoint latest = store.latest();
  for (const auto& bad : latest.passed_over) {
    progress.line(fmt::format("passed over {}: {}", bad.folder.filename().string(), bad.reason));
  }
  if (!latest.good) return {};
  if (request.mode == ResumeRequest::Mode::none) {
    fail({.what = "this run has checkpoints, and --resume none would train over them",
          .where = latest.good->folder.string(),
          .next = "choose another name (--set run.name=NAME), or leave --resume out to go on"});
  }
  return latest.good->folder;
}

}  // namespace

ResumeRequest parse_resume(const std::string& text) {
  if (text == "auto") return {ResumeRequest::Mode::automatic, {}};
  if (text == "none") return {ResumeRequest::Mode::none, {}};
  return {ResumeRequest::Mode::folder, text};
}

std::vector<std::string> restore_session(Session& session, const std::filesystem::path& folder) {
  const at::NoGradGuard no_grad;
  TrainingState state = read_training_state(folder);
  session.batch_plan().check(state.data);
  const ModelFiles files = ModelFiles::open(folder);
  check_tensors(files, session.config.model);
  for (const auto& [name, parameter] : stored_tensors(session.config.model, session.parameters)) {
    parameter.copy_(read_parameter(files, name));
  }
  const OptimizerMatch match = read_optimizer_state(folder, *session.optimizer);
  check_own_moments(match, session, folder);
  state.ran = session.state.ran;
  session.state = std::move(state);
  return match.fresh;
}

bool resume_session(Session& session, CheckpointStore& store, const ResumeRequest& request,
                    Progress& progress) {
  const auto folder = folder_to_resume(store, request, progress);
  if (folder) load_checkpoint(session, *folder, progress);
  for (const auto& aside : store.go_on_from(folder ? session.state.step : -1)) {
    progress.line("set aside, not part of this run any more: " + aside.string());
  }
  return folder.has_value();
}

}  // namespace kha
