// A test aid: places where a process can be made to die as if it had been killed.
//
// With KHA_FAIL_POINT=NAME in the environment, the process leaves at the fail point NAME with
// _exit(86): no destructor runs and nothing is flushed. Without it, a fail point does nothing.
#pragma once

namespace kha {

inline constexpr int fail_point_exit_code = 86;

// Checkpoints (checkpoint_store.h) have, in this order:
//   before-manifest  the files are written, the manifest is not
//   after-manifest   complete, but still under its hidden name
//   during-replace   only where the file system cannot exchange two folders: the old checkpoint of
//                    the same step is aside, the new one not yet under the final name
//   before-latest    under its final name, `latest` still points to the old one
// Training has step-N: step N is made, neither logged nor saved.
void maybe_fail(const char* name);

}  // namespace kha
