#include "tune/searchers/cmaes_searcher.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <numbers>
#include <utility>

#include "tune/searchers/model_searcher.h"
#include "tune/snapshot.h"
#include "tune/space/drawing.h"

namespace volador::tune {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kResamples = 100;     // Draws of a point outside the space before it is moved to the boundary.
constexpr double kCellShare = 0.3;  // Minimum standard deviation of an ordered value, relative to its mean cell.
constexpr double kValueTolerance = 1e-12;
constexpr double kStepTolerance = 1e-12;
constexpr double kConditionMax = 1e14;
constexpr int64_t kPopulationMax = 100'000;
constexpr int64_t kDoublingsMax = 30;
constexpr size_t kCandidates = 8;  // In a discrete space in which some points were tried before.

std::string text_of(const VectorXd& vector) {
  return SearchDimensions::to_text(std::vector<double>(vector.data(), vector.data() + vector.size()));
}

// Learning rates of a population of this size in n dimensions, in the tutorial's notation.
struct Rates {
  Rates(int64_t population, double n) {
    const auto lambda = static_cast<double>(population);
    std::vector<double> raw;
    for (int64_t i = 1; i <= population; ++i)
      raw.push_back(std::log((lambda + 1) / 2) - std::log(static_cast<double>(i)));
    double plus = 0, plus_squares = 0, minus = 0, minus_squares = 0;
    for (const double w : raw) {
      (w > 0 ? plus : minus) += std::abs(w);
      (w > 0 ? plus_squares : minus_squares) += w * w;
    }
    mu_eff = plus * plus / plus_squares;
    c_sigma = (mu_eff + 2) / (n + mu_eff + 5);
    d_sigma = 1 + 2 * std::max(0.0, std::sqrt((mu_eff - 1) / (n + 1)) - 1) + c_sigma;
    c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n);
    c_1 = 2 / ((n + 1.3) * (n + 1.3) + mu_eff);
    c_mu = std::min(1 - c_1, 2 * (mu_eff - 2 + 1 / mu_eff) / ((n + 2) * (n + 2) + mu_eff));
    chi = std::sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
    const double minus_eff = minus_squares > 0 ? minus * minus / minus_squares : 0;
    const double most = std::min({1 + c_1 / c_mu, 1 + 2 * minus_eff / (mu_eff + 2), (1 - c_1 - c_mu) / (n * c_mu)});
    for (const double w : raw) weights.push_back(w > 0 ? w / plus : most * w / minus);
  }
  std::vector<double> weights;
  double mu_eff, c_sigma, d_sigma, c_c, c_1, c_mu, chi;
};

struct Sample {
  VectorXd x;                     // Numeric dimensions, before settling.
  std::vector<uint64_t> options;  // Options of the choices.
  std::vector<bool> active;       // Whether the choice was active.
  bool counts = true;             // False for the first trial: the middle of the distribution has no direction.
};

class CmaesModel final : public SearchModel {
 public:
  CmaesModel(const ModelContext& context, const CmaesOptions& options)
      : dimensions_(context.dimensions), seed_(context.seed), options_(options) {
    for (size_t i = 0; i < dimensions_.size(); ++i) {
      const bool choice = dimensions_[i].kind == SearchDimensions::Kind::kCategorical;
      (choice ? choices_ : numbers_).push_back(i);
    }
    const auto all = static_cast<double>(std::max<size_t>(dimensions_.size(), 1));
    state_.first_population = state_.population =
        options.population > 0 ? options.population : 4 + static_cast<int64_t>(3 * std::log(all));
    begin(VectorXd::Constant(n(), 0.5), options.sigma);
  }

  std::vector<Point> propose(int64_t index, int attempt) override {
    SeededRandom random = model_random(seed_, index, attempt);
    proposed_.clear();
    const size_t count = dimensions_.is_discrete() ? kCandidates : 1;
    std::vector<Point> out;
    while (out.size() < count) {
      const bool middle = index == 0 && attempt == 0 && out.empty() && state_.restarts == 0;
      Sample sample = draw(random, middle);
      out.push_back(point_of(sample));
      proposed_.emplace_back(out.back(), std::move(sample));
    }
    return out;
  }

  void taken(int64_t index, const Point& point) override {
    const auto own =
        std::find_if(proposed_.begin(), proposed_.end(), [&](const auto& one) { return one.first == point; });
    Sample sample = own != proposed_.end() ? std::move(own->second) : sample_of(point);
    for (size_t i = 0; i < choices_.size(); ++i) sample.active[i] = point[choices_[i]] != kInactive;
    running_.insert_or_assign(index, std::move(sample));
    proposed_.clear();
  }

  void ended(int64_t index, double value) override {
    const auto found = running_.find(index);
    if (found == running_.end()) return;
    if (!found->second.counts) {
      running_.erase(found);
      return;
    }
    const double ranked = std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
    state_.told.push_back({std::move(found->second), ranked, index});
    running_.erase(found);
    if (static_cast<int64_t>(state_.told.size()) < state_.population) return;
    learn();
    if (converged()) restart();
  }

  // The first distribution is that of the best tenth of them, widened (warm starting CMA-ES, Nomura et al., AAAI 2021,
  // with alpha and gamma 0.1). The probabilities of choices start with the frequencies of their options among these.
  void warm_up(const std::vector<Lesson>& lessons, bool /*has_goals*/) override {
    constexpr double kShare = 0.1, kWidth = 0.1;
    std::vector<std::pair<double, const Lesson*>> good;
    for (const Lesson& lesson : lessons) {
      const double value = lesson.outcome.values.front();
      if (!std::isnan(value)) good.emplace_back(value, &lesson);
    }
    if (good.empty()) return;
    std::stable_sort(good.begin(), good.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    good.resize(static_cast<size_t>(std::ceil(kShare * static_cast<double>(good.size()))));
    const auto count = static_cast<double>(good.size());
    std::vector<Sample> samples;
    for (const auto& [value, lesson] : good) samples.push_back(sample_of(lesson->point));
    VectorXd mean = VectorXd::Zero(n());
    for (const Sample& sample : samples) mean += sample.x / count;
    begin(mean, options_.sigma);
    if (n() > 0) {
      MatrixXd spread = MatrixXd::Identity(n(), n()) * kWidth * kWidth;
      for (const Sample& sample : samples) spread += (sample.x - mean) * (sample.x - mean).transpose() / count;
      state_.sigma = std::min(1.0, std::pow(spread.determinant(), 0.5 / static_cast<double>(n())));
      state_.covariance = spread / (state_.sigma * state_.sigma);
      keep_cells_in_reach();
      decompose();
    }
    for (size_t i = 0; i < choices_.size(); ++i) {
      std::vector<double>& shares = state_.shares[i];
      for (double& share : shares)
        share /= count + 1;  // One trial counts as uniform, so that no option gets
                             // probability 0.
      for (size_t k = 0; k < samples.size(); ++k) {
        const bool active = good[k].second->point[choices_[i]] != kInactive;
        for (size_t option = 0; option < shares.size(); ++option) {
          const double drawn =
              active ? (samples[k].options[i] == option ? 1 : 0) : 1 / static_cast<double>(shares.size());
          shares[option] += drawn / (count + 1);
        }
      }
    }
  }

  std::string describe() const override { return "CMA-ES"; }
  Config state() const override;
  Result<std::function<void()>> read(const Config& state) override;

 private:
  struct Told {
    Sample sample;
    double value;
    int64_t index;
  };
  struct State {
    VectorXd mean, step_path, shape_path;
    MatrixXd covariance;
    double sigma = 0;
    std::vector<std::vector<double>> shares;  // Probabilities of each choice's options.
    int64_t generation = 0;                   // Generation of this search.
    int64_t population = 4, first_population = 4;
    int64_t restarts = 0, doublings = 0;
    int64_t large_trials = 0, small_trials = 0;  // Trials of the searches of each kind.
    bool small = false;                          // This search is of the small kind.
    std::vector<Told> told;                      // Results of the current generation.
    std::deque<double> recent_best;
  };

  Eigen::Index n() const { return static_cast<Eigen::Index>(numbers_.size()); }

  // ---- Drawing.

  Sample draw(Random& random, bool middle) const {
    Sample sample{.x = state_.mean,
                  .options = {},
                  .active = std::vector<bool>(choices_.size(), true),
                  .counts = !middle || n() == 0};
    for (int tries = 0; !middle && n() > 0 && tries < kResamples; ++tries) {
      VectorXd z(n());
      for (double& one : z) one = normal_deviate(random);
      sample.x = state_.mean + state_.sigma * (axes_ * lengths_.cwiseProduct(z));
      if ((sample.x.array() >= 0).all() && (sample.x.array() <= 1).all()) break;
    }
    sample.x = sample.x.cwiseMax(0.0).cwiseMin(1.0);
    for (const auto& shares : state_.shares) {
      double u = random.real();
      uint64_t option = 0;
      while (option + 1 < shares.size() && u >= shares[option]) u -= shares[option++];
      sample.options.push_back(option);
    }
    return sample;
  }

  Point point_of(const Sample& sample) const {
    Point point(dimensions_.size(), 0);
    for (size_t i = 0; i < numbers_.size(); ++i) point[numbers_[i]] = sample.x[static_cast<Eigen::Index>(i)];
    for (size_t i = 0; i < choices_.size(); ++i)
      point[choices_[i]] = dimensions_.middle(choices_[i], sample.options[i]);
    return dimensions_.settled(std::move(point));
  }
  // Sample of a point that was not drawn here: inactive coordinates are set to the mean, which has no effect.
  Sample sample_of(const Point& point) const {
    Sample sample{.x = state_.mean, .options = {}, .active = std::vector<bool>(choices_.size(), true)};
    for (size_t i = 0; i < numbers_.size(); ++i) {
      if (point[numbers_[i]] != kInactive) sample.x[static_cast<Eigen::Index>(i)] = point[numbers_[i]];
    }
    for (const size_t choice : choices_)
      sample.options.push_back(point[choice] != kInactive ? dimensions_.cell_of(choice, point[choice]) : 0);
    return sample;
  }

  // ---- Learning.

  void learn() {
    auto& told = state_.told;
    std::sort(told.begin(), told.end(),
              [](const Told& a, const Told& b) { return std::tie(a.value, a.index) < std::tie(b.value, b.index); });
    const Rates rates(static_cast<int64_t>(told.size()), static_cast<double>(std::max<Eigen::Index>(n(), 1)));
    if (n() > 0) learn_numbers(rates);
    for (size_t i = 0; i < choices_.size(); ++i) learn_choice(i, rates);
    (state_.small ? state_.small_trials : state_.large_trials) += static_cast<int64_t>(told.size());
    ++state_.generation;
    state_.recent_best.push_back(told.front().value);
    const size_t kept = 10 + static_cast<size_t>(30.0 * static_cast<double>(n()) / static_cast<double>(told.size()));
    while (state_.recent_best.size() > kept) state_.recent_best.pop_front();
    worst_ = told.back().value;
    told.clear();
  }

  void learn_numbers(const Rates& rates) {
    State& s = state_;
    const MatrixXd inverse_root = axes_ * lengths_.cwiseInverse().asDiagonal() * axes_.transpose();
    const auto dimension = static_cast<double>(n());
    // Bounds the steps of points that this searcher did not propose.
    const double longest = std::sqrt(dimension) + 2 * dimension / (dimension + 2);
    std::vector<VectorXd> steps;
    VectorXd mean_step = VectorXd::Zero(n());
    for (size_t i = 0; i < s.told.size(); ++i) {
      VectorXd y = (s.told[i].sample.x - s.mean) / s.sigma;
      const double length = (inverse_root * y).norm();
      if (length > longest) y *= longest / length;
      if (rates.weights[i] > 0) mean_step += rates.weights[i] * y;
      steps.push_back(std::move(y));
    }
    s.mean += s.sigma * mean_step;
    s.step_path = (1 - rates.c_sigma) * s.step_path +
                  std::sqrt(rates.c_sigma * (2 - rates.c_sigma) * rates.mu_eff) * (inverse_root * mean_step);
    const double norm = s.step_path.norm();
    const double settled = std::sqrt(1 - std::pow(1 - rates.c_sigma, 2.0 * static_cast<double>(s.generation + 1)));
    const bool quiet = norm / settled < (1.4 + 2 / (dimension + 1)) * rates.chi;
    s.shape_path *= 1 - rates.c_c;
    if (quiet) s.shape_path += std::sqrt(rates.c_c * (2 - rates.c_c) * rates.mu_eff) * mean_step;
    const double lost = quiet ? 0 : rates.c_1 * rates.c_c * (2 - rates.c_c);
    double total = 0;
    for (const double w : rates.weights) total += w;
    MatrixXd next = (1 + lost - rates.c_1 - rates.c_mu * total) * s.covariance +
                    rates.c_1 * (s.shape_path * s.shape_path.transpose());
    for (size_t i = 0; i < steps.size(); ++i) {
      double w = rates.weights[i];
      if (w < 0) w *= dimension / std::max((inverse_root * steps[i]).squaredNorm(), 1e-12);
      next += rates.c_mu * w * (steps[i] * steps[i].transpose());
    }
    s.sigma = std::min(1.0, s.sigma * std::exp(rates.c_sigma / rates.d_sigma * (norm / rates.chi - 1)));
    s.covariance = (next + next.transpose()) / 2;
    keep_cells_in_reach();
    decompose();
  }

  // An integer whose spread falls below its cells would stop changing.
  void keep_cells_in_reach() {
    for (Eigen::Index i = 0; i < n(); ++i) {
      const uint64_t cells = dimensions_[numbers_[static_cast<size_t>(i)]].cells;
      if (cells < 2) continue;
      const double least = kCellShare / static_cast<double>(cells) / state_.sigma;
      state_.covariance(i, i) = std::max(state_.covariance(i, i), least * least);
    }
  }

  void learn_choice(size_t choice, const Rates& rates) {
    std::vector<double>& shares = state_.shares[choice];
    const auto count = static_cast<double>(shares.size());
    const double rate = rates.mu_eff / (rates.mu_eff + count * static_cast<double>(choices_.size()));
    double weight = 0;
    std::vector<double> seen(shares.size(), 0);
    for (size_t i = 0; i < state_.told.size(); ++i) {
      const Sample& sample = state_.told[i].sample;
      if (rates.weights[i] <= 0 || !sample.active[choice]) continue;
      weight += rates.weights[i];
      seen[sample.options[choice]] += rates.weights[i];
    }
    for (size_t k = 0; k < shares.size(); ++k) shares[k] += rate * (seen[k] - weight * shares[k]);
    // No option dies out: on average each is still drawn every few generations.
    const double least =
        shares.size() > 1 ? (1 - std::pow(0.73, 1 / static_cast<double>(choices_.size()))) / (count - 1) / 2 : 1;
    double total = 0;
    for (double& share : shares) total += share = std::max(share, std::min(least, 1 / count));
    for (double& share : shares) share /= total;
  }

  void decompose() {
    if (n() == 0) return;
    const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(state_.covariance);
    axes_ = solver.eigenvectors();
    lengths_ = solver.eigenvalues().cwiseMax(1e-20).cwiseSqrt();
  }

  // ---- Restarts.

  bool converged() const {
    if (options_.restarts == CmaesRestarts::kNone) return false;
    const auto& recent = state_.recent_best;
    const size_t enough =
        10 + static_cast<size_t>(30.0 * static_cast<double>(n()) / static_cast<double>(state_.population));
    if (recent.size() >= enough) {
      const auto [least, most] = std::minmax_element(recent.begin(), recent.end());
      if (!(std::max(*most, worst_) - *least > kValueTolerance)) return true;  // Also if all are infinite.
    }
    if (n() == 0) return false;
    const double widest = lengths_.maxCoeff();
    return state_.sigma * widest < kStepTolerance ||
           widest * widest > kConditionMax * lengths_.minCoeff() * lengths_.minCoeff();
  }

  void restart() {
    State& s = state_;
    SeededRandom random = model_random(seed_, s.restarts, -1);
    ++s.restarts;
    s.small = options_.restarts == CmaesRestarts::kBipop && s.doublings > 0 && s.small_trials < s.large_trials;
    double sigma = options_.sigma;
    const auto first = static_cast<double>(s.first_population);
    if (s.small) {
      const double u = random.real();
      const double largest = first * std::pow(2.0, static_cast<double>(s.doublings));
      s.population = std::max(s.first_population, static_cast<int64_t>(first * std::pow(largest / first / 2, u * u)));
      sigma *= std::pow(10, -2 * random.real());
    } else {
      s.doublings = std::min(s.doublings + 1, kDoublingsMax);
      s.population = std::min(kPopulationMax, s.first_population << s.doublings);
    }
    VectorXd mean(n());
    for (double& one : mean) one = random.real();
    begin(std::move(mean), sigma);
  }

  void begin(VectorXd mean, double sigma) {
    state_.mean = std::move(mean);
    state_.sigma = sigma;
    state_.step_path = state_.shape_path = VectorXd::Zero(n());
    state_.covariance = MatrixXd::Identity(n(), n());
    state_.generation = 0;
    state_.recent_best.clear();
    state_.shares.clear();
    for (const size_t choice : choices_) {
      const auto cells = static_cast<size_t>(dimensions_[choice].cells);
      state_.shares.emplace_back(cells, 1 / static_cast<double>(cells));
    }
    decompose();
  }

  // ---- Snapshots.

  Config config_of(const Sample& sample) const {
    Config active = Config::list({});
    for (const bool one : sample.active) active.push_back(one);
    Config out = {{"x", text_of(sample.x)},
                  {"options", std::vector<int64_t>(sample.options.begin(), sample.options.end())},
                  {"active", std::move(active)}};
    if (!sample.counts) out.set("counts", false);
    return out;
  }
  std::optional<VectorXd> vector_of(const std::string& text, Eigen::Index size) const {
    const auto reals = SearchDimensions::reals_from_text(text);
    if (!reals || static_cast<Eigen::Index>(reals->size()) != size) return std::nullopt;
    return Eigen::Map<const VectorXd>(reals->data(), size);
  }
  std::optional<Sample> read_sample(const Config& config) const {
    const auto x = vector_of(config.text("x"), n());
    const Config options = config["options"];
    const Config active = config["active"];
    if (!x || options.size() != choices_.size() || active.size() != choices_.size()) return std::nullopt;
    Sample sample{.x = *x, .options = {}, .active = {}};
    for (size_t i = 0; i < choices_.size(); ++i) {
      const auto option = static_cast<uint64_t>(options.items()[i].integer());
      if (option >= dimensions_[choices_[i]].cells) return std::nullopt;
      sample.options.push_back(option);
      sample.active.push_back(active.items()[i].boolean());
    }
    if (config.contains("counts")) sample.counts = config.boolean("counts");
    return sample;
  }
  bool read_distribution(const Config& config, State& out) const;
  bool read_trials(const Config& config, State& out, std::map<int64_t, Sample>& running) const;

  const SearchDimensions& dimensions_;
  const uint64_t seed_;
  const CmaesOptions options_;
  std::vector<size_t> numbers_, choices_;  // Indices of dimensions.

  State state_;
  std::map<int64_t, Sample> running_;
  double worst_ = 0;  // Value in the last generation; valid only right after it.
  MatrixXd axes_;     // Eigenvectors of the covariance times the roots of the eigenvalues.
  VectorXd lengths_;
  std::vector<std::pair<Point, Sample>> proposed_;  // Since the last call of taken().
};

Config CmaesModel::state() const {
  const State& s = state_;
  Config told = Config::list({});
  for (const Told& one : s.told) {
    Config entry = config_of(one.sample);
    entry.set("value", one.value);
    entry.set("index", one.index);
    told.push_back(std::move(entry));
  }
  Config running = Config::list({});
  for (const auto& [index, sample] : running_) {
    Config entry = config_of(sample);
    entry.set("index", index);
    running.push_back(std::move(entry));
  }
  Config shares = Config::list({});
  for (const auto& one : s.shares) shares.push_back(SearchDimensions::to_text(one));
  Config recent = Config::list({});
  for (const double one : s.recent_best) recent.push_back(one);
  const Eigen::Map<const VectorXd> covariance(s.covariance.data(), s.covariance.size());
  return {{"mean", text_of(s.mean)},
          {"step_path", text_of(s.step_path)},
          {"shape_path", text_of(s.shape_path)},
          {"covariance", text_of(covariance)},
          {"sigma", s.sigma},
          {"shares", std::move(shares)},
          {"generation", s.generation},
          {"population", s.population},
          {"restarts", s.restarts},
          {"doublings", s.doublings},
          {"large_trials", s.large_trials},
          {"small_trials", s.small_trials},
          {"small", s.small},
          {"told", std::move(told)},
          {"recent_best", std::move(recent)},
          {"running", std::move(running)}};
}

bool CmaesModel::read_distribution(const Config& config, State& out) const {
  const auto mean = vector_of(config.text("mean"), n());
  const auto step_path = vector_of(config.text("step_path"), n());
  const auto shape_path = vector_of(config.text("shape_path"), n());
  const auto covariance = vector_of(config.text("covariance"), n() * n());
  out.sigma = config.real("sigma");
  if (!mean || !step_path || !shape_path || !covariance || !(out.sigma > 0 && out.sigma <= 1)) return false;
  out.mean = *mean;
  out.step_path = *step_path;
  out.shape_path = *shape_path;
  out.covariance = Eigen::Map<const MatrixXd>(covariance->data(), n(), n());
  const Config shares = config["shares"];
  if (shares.size() != choices_.size()) return false;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const auto one = SearchDimensions::reals_from_text(shares.items()[i].text());
    if (!one || one->size() != dimensions_[choices_[i]].cells) return false;
    out.shares.push_back(*one);
  }
  return true;
}

bool CmaesModel::read_trials(const Config& config, State& out, std::map<int64_t, Sample>& running) const {
  const Config told = config["told"];
  for (const Config& entry : told.items()) {
    auto sample = read_sample(entry);
    if (!sample || std::isnan(entry.real("value"))) return false;
    out.told.push_back({std::move(*sample), entry.real("value"), entry.integer("index")});
  }
  const Config all = config["running"];
  for (const Config& entry : all.items()) {
    auto sample = read_sample(entry);
    if (!sample) return false;
    running.emplace(entry.integer("index"), std::move(*sample));
  }
  return static_cast<int64_t>(out.told.size()) < out.population;
}

Result<std::function<void()>> CmaesModel::read(const Config& config) {
  State out;
  out.first_population = state_.first_population;
  out.generation = config.integer("generation");
  out.population = config.integer("population");
  out.restarts = config.integer("restarts");
  out.doublings = config.integer("doublings");
  out.large_trials = config.integer("large_trials");
  out.small_trials = config.integer("small_trials");
  out.small = config.boolean("small");
  const Config recent = config["recent_best"];
  for (const Config& one : recent.items()) out.recent_best.push_back(one.real());
  std::map<int64_t, Sample> running;
  const bool counts = out.population >= 4 && out.population <= kPopulationMax && out.generation >= 0 &&
                      out.doublings >= 0 && out.doublings <= kDoublingsMax;
  if (!counts || !read_distribution(config, out) || !read_trials(config, out, running))
    return snapshot_does_not_fit(describe(), "a state of another space, or impossible numbers");
  return [this, out = std::move(out), running = std::move(running)]() mutable {
    state_ = std::move(out);
    running_ = std::move(running);
    proposed_.clear();
    decompose();
  };
}

Result<void> validate(const CmaesOptions& options) {
  if (options.population != 0 && (options.population < 4 || options.population > kPopulationMax)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("cmaes.population: expected 4 to {} trials, or 0 for the usual, got {}",
                                  kPopulationMax, options.population));
  }
  if (!(options.sigma > 0 && options.sigma <= 1)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("cmaes.sigma: expected a share of the range above 0, at most 1, got {}",
                                  format_real(options.sigma)));
  }
  return {};
}

}  // namespace

SearcherFactory cmaes(const CmaesOptions& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    VOLADOR_TRY(validate(options));
    return ModelSearcher::create(context, options.seed.value_or(context.seed), [options](const ModelContext& model) {
      return std::make_unique<CmaesModel>(model, options);
    });
  };
}

}  // namespace volador::tune
