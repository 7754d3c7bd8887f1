// torch's CPU tensors on an arena: the allocator that kha-engine installs.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <string>

#include "memory/arena.h"

namespace kha {

// Blocks of this many bytes and more come from the arena; smaller ones from torch's own allocator,
// as the C library keeps such memory anyway.
constexpr std::size_t least_arena_bytes = 64 << 10;

// Which allocator new CPU tensors come from: "caching" or "system". A block returns to where it
// came from, so that the choice may change at any time between steps.
//
// Chooses it by name. "auto" is what the environment variable KHA_ALLOCATOR says, and "caching"
// where it says nothing. Errors: kha::Error for another name.
void choose_allocator(const std::string& name);
std::string chosen_allocator();

// Counts of the arena; all 0 until a first tensor came from it. What is in use counts the small
// blocks too, so that a model of many small tensors is counted whole.
ArenaCounts arena_counts();
// Gives back what is free, and lets the peak start anew.
void release_free_memory();

}  // namespace kha
