// A searcher whose suggestions take long, off the thread that asks.
#pragma once

#include <memory>

#include "tune/searchers/searcher.h"

namespace volador::tune {

// `inner` computes one suggestion at a time on a thread of its own; until it is there the answer is kWait, after at
// most 2 ms. What is told meanwhile reaches `inner` afterwards, so a suggestion rests on exactly the events before it
// was first asked for. A snapshot taken meanwhile has the state from before and those events; a restored one asks
// again.
std::unique_ptr<Searcher> ask_ahead(std::unique_ptr<Searcher> inner);

}  // namespace volador::tune
