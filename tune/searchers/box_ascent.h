// A local maximum within a box, by values and slopes that its user computes: L-BFGS with projection onto the edges
// (Nocedal and Wright, Numerical Optimization, chapter 7). A state machine: at() is to be judged, told() goes on.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace volador::tune {

struct BoxAscentOptions {
  std::vector<double> low, high;  // The box.
  int judged_max = 60;            // Points, at most.
  double first_step = 0.05;       // Length of the first step.
  double gain_least = 1e-9;       // It ends where two steps in a row gain less.
};

class BoxAscent {
 public:
  // `start` lies in the box, but for coordinates without slope, which stay as they are; the options outlive it.
  BoxAscent(const BoxAscentOptions& options, std::vector<double> start);

  bool done() const { return done_; }
  const std::vector<double>& at() const { return next_; }
  // Value and slope at at(). A value that is not finite counts as the least; at the start it ends the search.
  void told(double value, const std::vector<double>& slope);

  const std::vector<double>& best() const { return at_; }
  double best_value() const { return value_; }

 private:
  void accept(double value, const std::vector<double>& slope);
  void aim();
  void move();

  struct Pair {
    std::vector<double> step, change;  // Of the point, of the negative slope.
    double product;
  };
  const BoxAscentOptions& options_;
  std::vector<double> at_, next_, slope_, way_;
  double value_ = 0, length_ = 1;
  std::deque<Pair> pairs_;
  int judged_ = 0, idle_ = 0;
  bool done_ = false;
};

}  // namespace volador::tune
