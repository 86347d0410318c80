#include <iterator>

#include "head/kernel/actions.h"

namespace volador::head {
namespace {

template <class T>
void move_to_end(std::vector<T>& into, std::vector<T>& from) {
  into.insert(into.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

bool Actions::empty() const {
  return journal.empty() && to_nodes.empty() && to_clients.empty() && close_nodes.empty() && close_clients.empty() &&
         events.empty() && experiments.empty();
}

void Actions::append(Actions&& later) {
  move_to_end(journal, later.journal);
  move_to_end(to_nodes, later.to_nodes);
  move_to_end(to_clients, later.to_clients);
  move_to_end(close_nodes, later.close_nodes);
  move_to_end(close_clients, later.close_clients);
  move_to_end(events, later.events);
  move_to_end(experiments, later.experiments);
}

}  // namespace volador::head
