// A run continued from one of its checkpoints.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kha/core/checkpoint_store.h"
#include "train/session.h"

namespace kha {

struct ResumeRequest {
  enum class Mode { automatic, none, folder } mode = Mode::automatic;
  std::filesystem::path folder;
};

// "auto", "none" or a step folder.
ResumeRequest parse_resume(const std::string& text);

// Weights, optimiser and state as of a checkpoint of this very session's run, whose settings are
// not looked at. What ran stays what runs now. Returns names whose optimiser state starts fresh.
std::vector<std::string> restore_session(Session& session, const std::filesystem::path& folder);

// Continues from a checkpoint of the run where there is one. Refuses changes that would make it
// another run; prints the others, what else differs (threads, versions), and what was passed over.
// Later checkpoints of the run are set aside. Returns whether there was a checkpoint.
bool resume_session(Session& session, CheckpointStore& store, const ResumeRequest& request,
                    Progress& progress);

}  // namespace kha
