#include "train/profile/breakdown.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace kha {
namespace {

using Kind = ProfileEvent::Kind;

double seconds(std::int64_t nanoseconds) { return 1e-9 * static_cast<double>(nanoseconds); }

// What an open event's own time counts as.
struct Label {
  std::string part;
  bool backward = false;
};

struct Open {
  const ProfileEvent* event;
  Label label;
  std::int64_t inner = 0;      // time of what it called so far
  bool after_node = false;     // of a part: a backward node was the last thing in it
  std::int64_t node_gaps = 0;  // of a part: its own time that followed backward nodes
  std::int64_t last_end = 0;   // where its last callee ended, or where it began
};

class Walk {
 public:
  explicit Walk(const std::vector<ProfileEvent>& events) : events_(events) {
    const auto first = std::find_if(events.begin(), events.end(),
                                    [](const auto& e) { return e.kind == Kind::part; });
    if (first != events.end()) thread_ = first->thread;
  }

  Breakdown run() {
    for (const auto& event : events_) {
      if (event.end == 0) continue;  // still open when recording stopped
      close_until(event);
      open(event);
    }
    for (auto& [thread, stack] : stacks_) {
      while (!stack.empty()) close(stack);
    }
    return finished();
  }

 private:
  void close_until(const ProfileEvent& event) {
    auto& stack = stacks_[event.thread];
    while (!stack.empty() && stack.back().event->end <= event.begin) close(stack);
  }

  void open(const ProfileEvent& event) {
    auto& stack = stacks_[event.thread];
    Open* const outer = stack.empty() ? nullptr : &stack.back();
    if (outer) note_gap(*outer, event.begin);
    if (outer && outer->event->kind == Kind::part && event.kind != Kind::operation)
      outer->after_node = event.kind != Kind::part;
    stack.push_back({.event = &event, .label = label_of(event, outer), .last_end = event.begin});
  }

  // The own time of a part since its last callee.
  void note_gap(Open& outer, std::int64_t now) {
    if (outer.event->kind == Kind::part && outer.after_node)
      outer.node_gaps += now - outer.last_end;
  }

  Label label_of(const ProfileEvent& event, const Open* outer) const {
    const bool backward = outer && outer->label.backward;
    if (event.kind == Kind::part) return {event.name, backward};
    if (event.kind == Kind::engine_call) return {between_nodes, true};
    if (event.kind == Kind::backward_node) return {part_of_node(event, outer), true};
    if (!outer) return {};
    const bool between = outer->event->kind == Kind::part && outer->after_node;
    return between ? Label{between_nodes, true} : outer->label;
  }

  // The innermost part whose nodes have this number: the last one that opened.
  std::string part_of_node(const ProfileEvent& node, const Open* outer) const {
    for (auto e = events_.rbegin(); e != events_.rend(); ++e) {
      const bool holds = e->kind == Kind::part && e->thread == node.thread && e->end != 0 &&
                         e->node_begin <= node.node_begin && node.node_begin < e->node_end;
      if (holds) return e->name;
    }
    return outer && outer->event->kind != Kind::part ? outer->label.part : between_nodes;
  }

  void close(std::vector<Open>& stack) {
    const Open done = stack.back();
    stack.pop_back();
    Open last = done;
    note_gap(last, done.event->end);
    const std::int64_t whole = done.event->end - done.event->begin;
    const std::int64_t own = whole - done.inner;
    if (done.event->kind != Kind::part) add_operator(done.event->name, own);
    if (done.event->thread == thread_) {
      add_part({between_nodes, true}, last.node_gaps);
      add_part(done.label, own - last.node_gaps);
      if (stack.empty() && !done.label.part.empty()) total_ += whole;
    }
    if (stack.empty()) return;
    stack.back().inner += whole;
    stack.back().last_end = done.event->end;
  }

  void add_part(const Label& label, std::int64_t own) {
    if (label.part.empty() || own == 0) return;  // outside every part
    PartTime& time = result_.parts[label.part];
    (label.backward ? time.backward : time.forward) += seconds(own);
  }

  void add_operator(const std::string& name, std::int64_t own) {
    OperatorTime& op = operators_[name];
    op.calls += 1;
    op.own += seconds(own);
  }

  Breakdown finished() {
    result_.seconds = seconds(total_);
    for (auto& [name, op] : operators_) {
      op.name = name;
      result_.operators.push_back(op);
    }
    std::sort(result_.operators.begin(), result_.operators.end(),
              [](const auto& a, const auto& b) { return a.own > b.own; });
    return result_;
  }

  const std::vector<ProfileEvent>& events_;
  std::optional<std::uint64_t> thread_;
  std::unordered_map<std::uint64_t, std::vector<Open>> stacks_;
  std::map<std::string, OperatorTime> operators_;
  std::int64_t total_ = 0;
  Breakdown result_;
};

}  // namespace

Breakdown break_down(const std::vector<ProfileEvent>& events) { return Walk(events).run(); }

}  // namespace kha
