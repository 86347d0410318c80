// Values with O(log n) insertion, rank and selection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <functional>
#include <utility>

namespace volador::tune {

// Smaller keys first; no NaN.
class Ranking {
 public:
  void insert(double key) { tree_.insert({key, sequence_++}); }
  size_t size() const { return tree_.size(); }
  // How many are strictly smaller.
  size_t rank(double key) const { return tree_.order_of_key({key, 0}); }
  double at(size_t position) const { return tree_.find_by_order(position)->first; }

 private:
  using Key = std::pair<double, uint64_t>;  // The second keeps equal values apart.
  __gnu_pbds::tree<Key, __gnu_pbds::null_type, std::less<Key>, __gnu_pbds::rb_tree_tag,
                   __gnu_pbds::tree_order_statistics_node_update>
      tree_;
  uint64_t sequence_ = 0;
};

}  // namespace volador::tune
