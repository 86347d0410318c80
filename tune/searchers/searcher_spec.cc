#include "tune/searchers/searcher_spec.h"

#include <fmt/format.h>

#include "runtime/nearest_word.h"
#include "tune/refusal.h"
#include "tune/searchers/auto_searcher.h"
#include "tune/searchers/bohb_searcher.h"
#include "tune/searchers/cmaes_searcher.h"
#include "tune/searchers/gp_searcher.h"
#include "tune/searchers/halton_searcher.h"
#include "tune/searchers/nsga2_searcher.h"
#include "tune/searchers/sobol_searcher.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/searchers/trees_searcher.h"
#include "tune/searchers/variant_searcher.h"
#include "tune/spec_options.h"

namespace volador::tune {
namespace {

// One pass over the grid.
SearcherFactory grid() {
  return [](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    const auto size = context.space.grid_size();
    if (!size) return make_error(size.error());
    if (*size == 1) return refuse("grid: the space has no grid_search axis to go through: add one, or take random");
    SearchContext once = context;
    once.num_samples = 1;
    return random_search()(once);
  };
}

Result<SearcherFactory> tpe_of(SpecOptions& options) {
  TpeOptions made;
  made.n_startup_trials = options.integer("n_startup_trials", made.n_startup_trials);
  made.n_ei_candidates = options.integer("n_ei_candidates", made.n_ei_candidates);
  made.gamma = options.real("gamma", made.gamma);
  made.gamma_max = options.integer("gamma_max", made.gamma_max);
  made.prior_weight = options.real("prior_weight", made.prior_weight);
  made.multivariate = options.boolean("multivariate", made.multivariate);
  made.group = options.boolean("group", made.group);
  made.constant_liar = options.boolean("constant_liar", made.constant_liar);
  made.magic_clip = options.boolean("magic_clip", made.magic_clip);
  made.endpoints = options.boolean("endpoints", made.endpoints);
  made.history_max = options.integer("history_max", made.history_max);
  return options.make(tpe(made));
}

AcquisitionOptions acquisition_of(SpecOptions& options, Acquisition otherwise) {
  AcquisitionOptions made;
  const std::string function = options.one_of("acquisition", {"ei", "pi", "lcb", "hedge"});
  made.function = function == "ei"      ? Acquisition::kEi
                  : function == "pi"    ? Acquisition::kPi
                  : function == "lcb"   ? Acquisition::kLcb
                  : function == "hedge" ? Acquisition::kHedge
                                        : otherwise;
  made.xi = options.real("xi");
  made.kappa = options.real("kappa", made.kappa);
  return made;
}

Result<SearcherFactory> gp_of(SpecOptions& options) {
  GpOptions made;
  made.n_startup_trials = options.integer("n_startup_trials", made.n_startup_trials);
  made.history_max = options.integer("history_max", made.history_max);
  made.acquisition = acquisition_of(options, made.acquisition.function);
  if (options.one_of("optimizer", {"ascent", "sampling"}) == "sampling") made.optimizer = GpOptimizer::kSampling;
  return options.make(gp(made));
}

Result<SearcherFactory> trees_of(SpecOptions& options) {
  TreesOptions made;
  const std::string kind = options.one_of("kind", {"rf", "et", "gbrt"});
  if (kind == "rf") made.kind = TreeKind::kRandomForest;
  if (kind == "et") made.kind = TreeKind::kExtraTrees;
  if (kind == "gbrt") made.kind = TreeKind::kBoosted;
  made.n_startup_trials = options.integer("n_startup_trials", made.n_startup_trials);
  made.history_max = options.integer("history_max", made.history_max);
  made.acquisition = acquisition_of(options, made.acquisition.function);
  return options.make(trees(made));
}

Result<SearcherFactory> cmaes_of(SpecOptions& options) {
  CmaesOptions made;
  made.population = options.integer("population", made.population);
  made.sigma = options.real("sigma", made.sigma);
  const std::string restarts = options.one_of("restarts", {"none", "ipop", "bipop"});
  if (restarts == "none") made.restarts = CmaesRestarts::kNone;
  if (restarts == "ipop") made.restarts = CmaesRestarts::kIpop;
  return options.make(cmaes(made));
}

Result<SearcherFactory> nsga2_of(SpecOptions& options) {
  Nsga2Options made;
  made.population_size = options.integer("population_size", made.population_size);
  made.crossover_prob = options.real("crossover_prob", made.crossover_prob);
  made.swapping_prob = options.real("swapping_prob", made.swapping_prob);
  const double mutation = options.real("mutation_prob", -1);
  if (mutation != -1) made.mutation_prob = mutation;
  if (options.one_of("crossover", {"sbx", "uniform"}) == "uniform") made.crossover = Nsga2Crossover::kUniform;
  made.eta = options.real("eta", made.eta);
  return options.make(nsga2(made));
}

Result<SearcherFactory> bohb_of(SpecOptions& options) {
  BohbOptions made;
  made.max_t = options.integer("max_t", made.max_t);
  made.eta = options.real("eta", made.eta);
  made.min_points_in_model = options.integer("min_points_in_model", made.min_points_in_model);
  made.top_n_percent = options.real("top_n_percent", made.top_n_percent);
  made.num_samples = options.integer("num_samples", made.num_samples);
  made.random_fraction = options.real("random_fraction", made.random_fraction);
  made.bandwidth_factor = options.real("bandwidth_factor", made.bandwidth_factor);
  made.min_bandwidth = options.real("min_bandwidth", made.min_bandwidth);
  made.history_max = options.integer("history_max", made.history_max);
  return options.make(bohb(made));
}

}  // namespace

const std::vector<std::string>& searcher_names() {
  static const std::vector<std::string> names{"random", "grid", "tpe",   "gp",     "trees", "cmaes",
                                              "nsga2",  "bohb", "sobol", "halton", "auto"};
  return names;
}

Result<SearcherFactory> searcher_of(std::string_view text) {
  auto spec = SpecOptions::parse(text);
  if (!spec) return make_error(spec.error());
  SpecOptions& options = *spec;
  const std::string& name = options.name();
  if (name == "random")
    return options.make(random_search({.constant_grid_search = options.boolean("constant_grid_search", false)}));
  if (name == "grid") return options.make(grid());
  if (name == "tpe") return tpe_of(options);
  if (name == "auto") return options.make(automatic());
  if (name == "gp") return gp_of(options);
  if (name == "trees") return trees_of(options);
  if (name == "cmaes") return cmaes_of(options);
  if (name == "nsga2") return nsga2_of(options);
  if (name == "bohb") return bohb_of(options);
  if (name == "sobol") return options.make(sobol_search({.scramble = options.boolean("scramble", true)}));
  if (name == "halton") return options.make(halton_search({.scramble = options.boolean("scramble", true)}));
  return refuse(fmt::format("there is no searcher \"{}\"{}; known: {}", name, did_you_mean(name, searcher_names()),
                            fmt::join(searcher_names(), ", ")));
}

}  // namespace volador::tune
