// Runs a slow searcher on its own thread, so that the caller does not block.
#pragma once

#include <memory>

#include "tune/searchers/searcher.h"

namespace volador::tune {

// `inner` computes one suggestion at a time on its own thread; until it is ready, suggest() returns kWait after at most
// 2 ms. Events that arrive meanwhile are passed to `inner` afterwards, so that a suggestion depends on exactly the
// events before it was first requested. A snapshot taken meanwhile contains the state from before plus those events; a
// restored searcher computes the suggestion again.
std::unique_ptr<Searcher> ask_ahead(std::unique_ptr<Searcher> inner);

}  // namespace volador::tune
