// Interface of algorithms that suggest the trials of a resource of kind Experiment: ours (own_suggestions.h) and those
// of external services (volador/roles/katib_services.h). Messages are those of Katib's gRPC API.
#pragma once

#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/result.h"

namespace volador::experiments::katib {

class SuggestionService {
 public:
  virtual ~SuggestionService() = default;

  // Suggests at most current_request_number trials. The request has all trials of the experiment, in the order of their
  // creation, each with its assignments, its condition and, once it has ended, the observation of the objective. Labels
  // of an assignment must be returned in the labels of its trial; a trial_name, if set, must be used as its name.
  //
  // Fewer trials than requested, or none: the algorithm needs the results of trials that have not ended; ask again when
  // one ends. None while all trials have ended: there will be no further ones (the end of a grid).
  //
  // kInvalidArgument: the request is wrong and will not become right; kUnavailable: repeat it later.
  [[nodiscard]] virtual Result<api::v1::beta1::GetSuggestionsReply> suggest(
      const api::v1::beta1::GetSuggestionsRequest& request) = 0;

  // kInvalidArgument: the algorithm refuses its settings or the parameters of the experiment; the message is for the
  // author of the experiment.
  [[nodiscard]] virtual Result<void> validate(const api::v1::beta1::Experiment& experiment) = 0;
};

}  // namespace volador::experiments::katib
