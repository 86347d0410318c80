// Local maximisation within a box from values and gradients that the caller computes: L-BFGS with projection onto the
// bounds (Nocedal and Wright, Numerical Optimization, chapter 7). A state machine: the caller evaluates at() and passes
// the result to told().
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace volador::tune {

struct BoxAscentOptions {
  std::vector<double> low, high;  // Bounds of the box.
  int judged_max = 60;            // Maximum number of evaluations.
  double first_step = 0.05;       // Length of the first step.
  double gain_least = 1e-9;       // Stops after two consecutive steps that gain less.
};

class BoxAscent {
 public:
  // `start` lies in the box, except for coordinates with zero gradient, which stay unchanged; the options must outlive
  // this object.
  BoxAscent(const BoxAscentOptions& options, std::vector<double> start);

  bool done() const { return done_; }
  const std::vector<double>& at() const { return next_; }
  // Passes value and gradient at at(). A non-finite value counts as the smallest; at the start it ends the search.
  void told(double value, const std::vector<double>& slope);

  const std::vector<double>& best() const { return at_; }
  double best_value() const { return value_; }

 private:
  void accept(double value, const std::vector<double>& slope);
  void aim();
  void move();

  struct Pair {
    std::vector<double> step, change;  // Differences of the point and of the negative gradient.
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
