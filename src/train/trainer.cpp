#include "train/trainer.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <optional>

#include "kha/core/command_line.h"
#include "kha/core/counts.h"
#include "kha/core/error.h"
#include "kha/core/fail_point.h"
#include "kha/core/machine_facts.h"
#include "kha/core/run_record.h"
#include "kha/core/schedule.h"
#include "kha/core/version.h"
#include "memory/caching_allocator.h"
#include "observe/head_similarity.h"
#include "train/ceiling.h"
#include "train/head_metrics.h"
#include "train/interrupt.h"
#include "train/load_metrics.h"
#include "train/map_metrics.h"
#include "train/pass_metrics.h"
#include "train/print_session.h"
#include "train/process_figures.h"
#include "train/profile/step_profile.h"
#include "train/run_logs.h"
#include "train/spike_policy.h"
#include "train/step.h"
#include "train/validation.h"

namespace kha {
namespace {

class Loop {
 public:
  Loop(Session& session, const RunFolder& folder, bool resumed, const Ceiling& ceiling,
       Progress& progress)
      : session_(session),
        folder_(folder),
        progress_(progress),
        store_(folder.checkpoints()),
        step_(session, folder.path(), &watch_),
        flops_(flops_per_token(session.config.model, session.config.train.context).training()),
        ceiling_(ceiling),
        watched_(watched_batch(session)),
        saved_step_(resumed ? session.state.step : -1) {
    open_logs();
    returns_ = returns_to(folder.path(), [&](int64_t step) { return rate_of(step); });
    logs_->metrics.write({{"step", session.state.step},
                          {"tokens", session.state.tokens},
                          {"run/command", command_line()},
                          {"run/commit", build_commit()},
                          {"run/cpu", machine_facts().cpu},
                          {"run/threads", ceiling.threads},
                          {"run/allocator", chosen_allocator()},
                          {"run/ceiling_gflops", ceiling.flops / 1e9}});
  }

  // Records so many steps of those that run() makes.
  void profile(int64_t steps) {
    profile_.emplace(session_.state.step, steps, session_.config.train.steps);
  }

  // Until the last step or a signal.
  void run() {
    const TrainOptions& t = session_.config.train;
    const bool validates = session_.corpus->has_validation();
    // Going back needs a place to go to from the first step on.
    if (parse_spike_policy(t.spike) == SpikeAction::back && !store_.latest().good) save();
    while (session_.state.step < t.steps && interrupt_signal() == 0) {
      if (!one_step()) continue;
      const int64_t step = session_.state.step;
      if (validates && t.eval_every > 0 && step % t.eval_every == 0 && step < t.steps) validate();
      if (t.save_every > 0 && step % t.save_every == 0 && step < t.steps) save();
    }
  }

  // Of all sources together, and of each where there are several.
  Evaluation validate() {
    const TrainingState& s = session_.state;
    nlohmann::ordered_json line{{"step", s.step}, {"tokens", s.tokens}};
    const Evaluation e = validate_sources(session_, line, progress_);
    line["val/loss"] = e.loss();
    line["val/bits_per_byte"] = e.bits_per_byte();
    add_global_load_metrics(e.loads, session_.config.metrics.experts, line);
    write_observed(line);
    logs_->documents.write(
        {{"step", s.step}, {"tokens", s.tokens}, {"documents", documents_to_json(e.documents)}});
    progress_.line(fmt::format("  step {}: validation loss {:.4f} nats a token, {:.4f} bits a byte",
                               s.step, e.loss(), e.bits_per_byte()));
    return e;
  }

  void save() {
    progress_.passing("saving");
    save_session(session_, store_);
    const TrainingState& s = session_.state;
    saved_step_ = s.step;
    write_heads(folder_.path(), s, heads());
    const bool validation_follows =
        session_.corpus->has_validation() && s.step >= session_.config.train.steps;
    if (observed_step_ != s.step && !validation_follows) {
      write_observed({{"step", s.step}, {"tokens", s.tokens}});
    }
  }

  SpikeFigures spikes() const {
    const RunConfig& c = session_.config;
    return watch_.figures(warmup_steps(c.schedule, c.train.steps));
  }

  bool saved() const { return saved_step_ == session_.state.step; }

  // The share of the ceiling that this many tokens a second are; 0 where no ceiling is known.
  double mfu(double tokens_per_second) const {
    return ceiling_.flops > 0 ? tokens_per_second * flops_ / ceiling_.flops : 0;
  }

 private:
  // The learning rate of a step by the settings of now.
  double rate_of(int64_t step) const {
    const RunConfig& c = session_.config;
    return c.optimizer.lr * schedule_factor(c.schedule, step, c.train.steps);
  }

  // Once a step, whoever asks.
  const HeadSimilarity& heads() {
    if (heads_step_ != session_.state.step) {
      heads_ = head_similarity(session_.config.model, session_.parameters, watched_);
      heads_step_ = session_.state.step;
    }
    return heads_;
  }

  // The line with what the maps and the heads have become.
  void write_observed(nlohmann::ordered_json line) {
    add_map_metrics(session_, line);
    add_head_metrics(heads(), line);
    add_pass_metrics(session_, watched_, heads(), line);
    logs_->metrics.write(line);
    observed_step_ = session_.state.step;
  }

  // False where the run went back instead: what belongs to that step was done when it was made.
  bool one_step() {
    if (profile_) profile_->before_step(session_.state.step);
    const StepResult result = make_step();
    if (result.action == SpikeAction::back) {
      go_back(result);
      return false;
    }
    maybe_fail(fmt::format("step-{}", session_.state.step).c_str());
    const int64_t step = session_.state.step;
    logs_->steps.write({{"step", step}, {"loss", result.loss}, {"grad_norm", result.norm}});
    report(result);
    if (result.action != SpikeAction::none) report_spike(result);
    if (profile_) add_to_profile(result);
    return true;
  }

  // A step that no policy helps ends the run; its log says so first.
  StepResult make_step() {
    try {
      return step_.make();
    } catch (const Error& error) {
      if (error.code() == ExitCode::check_failed) {
        constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
        log_stop({.at = session_.state.step + 1, .loss = unknown, .grad_norm = unknown});
      }
      throw;
    }
  }

  void log_stop(const SpikedStep& step) {
    logs_->metrics.write(spike_line(session_.state, SpikeAction::stop, step));
  }

  // What the logs hold of later steps goes aside, and the watch sees what is left.
  void open_logs() {
    logs_.reset();
    logs_.emplace(folder_.path(), session_.state.step, session_.config.train.tensorboard,
                  session_.config.model.experts.any());
    watch_ = watch_spikes(read_every_step(folder_.path()));
  }

  static SpikedStep spiked(const StepResult& r, int64_t at) {
    return {.at = at, .loss = r.loss, .grad_norm = r.norm, .lr = r.lr};
  }

  void report_spike(const StepResult& r) {
    const TrainingState& s = session_.state;
    logs_->metrics.write(spike_line(s, r.action, spiked(r, s.step)));
    const char* const done =
        r.action == SpikeAction::skip ? "its batch is left out, no weight has changed" : "noted";
    progress_.line(fmt::format("  spike at step {}: {}: {}", s.step,
                               in_words(r.spikes, r.loss, r.norm), done));
  }

  // The weights of the last good checkpoint, and the data behind the batch that spiked.
  void go_back(const StepResult& r) {
    TrainingState& s = session_.state;
    const int64_t at = s.step + 1, next_batch = s.batch() + 1;
    const Checkpoint to = place_to_return(spiked(r, at));
    restore_session(session_, to.folder);
    s.batches_left_out = next_batch - s.step;
    s.data = session_.batch_plan().position(s.batch());
    saved_step_ = observed_step_ = s.step;
    heads_step_ = -1;  // a later step of this number is another one
    open_logs();
    logs_->metrics.write(spike_line(s, r.action, spiked(r, at)));
    progress_.line(fmt::format("  spike at step {}: {}: back to step {}, {} batches are left out",
                               at, in_words(r.spikes, r.loss, r.norm), s.step, at - s.step));
  }

  // The newest good checkpoint. One from which the run spikes time and again is broken itself.
  Checkpoint place_to_return(const SpikedStep& step) {
    constexpr int64_t most_returns = 3;
    const auto good = store_.latest().good;
    const int64_t returns = good ? ++returns_[good->step] : 0;
    if (good && returns <= most_returns) return *good;
    log_stop(step);
    fail({.what = good ? fmt::format("the run went back to step {} {} times and spiked again",
                                     good->step, most_returns)
                       : "the run has no good checkpoint to go back to",
          .where = fmt::format("{}, step {}", folder_.path().string(), step.at),
          .cause = "a learning rate that is too high, or weights that were broken before",
          .next = "continue from an earlier checkpoint (--resume STEP_FOLDER), with a lower rate "
                  "(--set optimizer.lr=…) or without going back (--set train.spike=skip)"},
         ExitCode::check_failed);
  }

  void add_to_profile(const StepResult& r) {
    const bool whole = profile_->after_step({.step = session_.state.step,
                                             .time = steady_nanoseconds(),
                                             .seconds = r.seconds,
                                             .faults = r.faults,
                                             .memory = arena_counts()});
    if (!whole) return;
    progress_.line("\n" + profile_->write(folder_.path()) + "\n");
    profile_.reset();
  }

  void report(const StepResult& r) {
    const TrainingState& s = session_.state;
    const TrainOptions& t = session_.config.train;
    const bool logged = s.step % t.log_every == 0 || s.step == t.steps;
    const double limit = session_.config.optimizer.clip;
    ++since_line_;
    clipped_ += limit > 0 && r.norm > limit && r.action != SpikeAction::skip;
    report_progress(r, logged);
    if (logs_->loads && s.step % load_every == 0) write_load(*logs_->loads, s, r.experts);
    if (logged) write_step(r);
  }

  double tokens_per_second(const StepResult& r) const {
    return static_cast<double>(session_.config.tokens_per_step()) / r.seconds;
  }

  void report_progress(const StepResult& r, bool logged) {
    const TrainingState& s = session_.state;
    const TrainOptions& t = session_.config.train;
    // The first step warms caches up; a slow mean is what an ETA needs.
    pace_ = pace_ == 0 ? r.seconds : 0.9 * pace_ + 0.1 * r.seconds;
    const double tps = tokens_per_second(r);
    progress_.step({.step = s.step,
                    .steps = t.steps,
                    .loss = r.loss,
                    .grad_norm = r.norm,
                    .lr = r.lr,
                    .tokens_per_second = tps,
                    .gflops = tps * flops_ / 1e9,
                    .mfu = mfu(tps),
                    .seconds_left = pace_ * static_cast<double>(t.steps - s.step),
                    .resident_bytes = resident_bytes()},
                   logged);
  }

  void write_step(const StepResult& r) {
    const TrainingState& s = session_.state;
    const double tps = tokens_per_second(r);
    nlohmann::ordered_json line{{"step", s.step},
                                {"tokens", s.tokens},
                                {"train/loss", r.loss},
                                {"grad_norm", r.norm},
                                {"clipped", static_cast<double>(clipped_) / since_line_},
                                {"lr", r.lr},
                                {"spikes", watch_.events()},
                                {"tps", tps},
                                {"gflops", tps * flops_ / 1e9},
                                {"memory", resident_bytes()},
                                {"faults", r.faults}};
    if (ceiling_.flops > 0) line["mfu"] = mfu(tps);
    if (logs_->loads) add_load_metrics(r.experts, session_.config.metrics.experts, line);
    logs_->metrics.write(line);
    clipped_ = since_line_ = 0;
  }

  Session& session_;
  const RunFolder& folder_;
  Progress& progress_;
  CheckpointStore store_;
  std::optional<RunLogs> logs_;  // opened anew where the run goes back
  SpikeWatch watch_;
  std::map<int64_t, int64_t> returns_;  // to each checkpoint
  TrainStep step_;
  double flops_;  // a token
  Ceiling ceiling_;
  const Batch watched_;
  HeadSimilarity heads_;
  int64_t heads_step_ = -1, observed_step_ = -1;
  int64_t saved_step_;  // -1: none
  double pace_ = 0;
  int64_t clipped_ = 0, since_line_ = 0;  // steps since the last line of metrics.jsonl
  std::optional<StepProfile> profile_;
};

// The end of a run: the last checkpoint, and the summary, which is reused when it is there already.
TrainReport finish(Session& session, Loop& loop, const RunFolder& folder, bool trained) {
  if (!loop.saved()) loop.save();
  const bool all_steps = session.state.step >= session.config.train.steps;
  TrainReport report{.step = session.state.step,
                     .finished = all_steps && interrupt_signal() == 0,
                     .trained = trained};
  if (!report.finished) return report;
  if (const auto known = read_run_summary(folder.path(), session)) {
    report.summary = *known;
    return report;
  }
  const TrainingState& s = session.state;
  report.summary.peak_bytes = peak_resident_bytes();
  if (s.seconds > 0) report.summary.tokens_per_second = static_cast<double>(s.tokens) / s.seconds;
  report.summary.mfu = loop.mfu(report.summary.tokens_per_second);
  report.summary.spikes = loop.spikes();
  if (session.corpus->has_validation()) report.summary.validation = loop.validate();
  write_run_summary(folder.path(), session, report.summary);
  return report;
}

}  // namespace

TrainReport train(const TrainRequest& request, std::shared_ptr<const RunCorpus> corpus) {
  Progress progress(request.label);
  RunConfig config = request.config;
  const RunFolder folder(config.run_folder());
  if (!corpus) corpus = open_corpus(config, progress);
  take_tokenizer(config, *corpus->tokenizer);
  Session session = start_session(std::move(config), std::move(corpus), progress);
  CheckpointStore store(folder.checkpoints());
  store.remove_partials();
  const bool resumed = resume_session(session, store, request.resume, progress);
  folder.write_config(session.config);
  print_session(session, progress);
  const int64_t first_step = session.state.step;
  // From here to the last save a signal waits for a moment at which nothing is lost.
  const InterruptGuard guard;
  const Ceiling ceiling = ceiling_of(session.arithmetic);
  progress.line("ceiling: " + in_words(ceiling));
  Loop loop(session, folder, resumed, ceiling, progress);
  if (request.profile_steps > 0) loop.profile(request.profile_steps);
  loop.run();
  const TrainReport report = finish(session, loop, folder, session.state.step > first_step);
  progress.finish();
  return report;
}

void print_plan(RunConfig config) {
  Progress progress("");
  auto corpus = open_corpus(config, progress);
  const Session session = start_session(std::move(config), std::move(corpus), progress);
  print_session(session, progress);
  const RunConfig& c = session.config;
  const double tokens = static_cast<double>(c.train.steps) * c.tokens_per_step();
  progress.line(
      fmt::format("plan: {} steps of {} tokens = {:.3g} tokens ({:.2f} epochs), state {}, into {}",
                  c.train.steps, c.tokens_per_step(), tokens,
                  tokens / static_cast<double>(session.corpus->train_tokens()),
                  bytes_text(16.0 * count_parameters(c.model).total), c.run_folder().string()));
}

}  // namespace kha
